// One translation unit: PyTorch's headers take most of the compiler's time, and are read once.

#include "autograd.cpp"
#include "history.cpp"
#include "memory.cpp"
#include "observe.cpp"
#include "pools.cpp"
#include "settings.cpp"
#include "sharing.cpp"
#include "state.cpp"
#include "watch.cpp"

// Makes vramtape PyTorch's allocator for the rest of the process. NULL, or why that was not possible; the text lives
// until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* vramtape_bridge_activate() {
    thread_local std::string reason;
    try {
        vramtape::Allocator::activate();
        vramtape_set_autograd(&vramtape::ask_autograd);
        return nullptr;
    } catch (const c10::Error& error) {
        reason = error.what_without_backtrace();
    } catch (const std::exception& error) {
        reason = error.what();
    }
    return reason.c_str();
}
