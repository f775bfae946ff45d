// The version of the PyTorch in the process. No function says it, but the list of its build's options does.

#include <map>
#include <string>

#include "loaded.h"

// Such as "2.15.0", for the rest of the process; NULL without a PyTorch, or with one that does not say it.
extern "C" const char* vramtape_torch_version() {
    using Options = const std::map<std::string, std::string>& (*)();
    void* const found = vramtape::loaded_symbol("libtorch_cpu.so", "_ZN6caffe215GetBuildOptionsB5cxx11Ev");
    if (found == nullptr) {
        return nullptr;
    }
    const auto& options = reinterpret_cast<Options>(found)();
    const auto version = options.find("TORCH_VERSION");
    return version == options.end() ? nullptr : version->second.c_str();
}
