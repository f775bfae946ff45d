// PyTorch's interfaces for watching: histories, observers, trackers, annotations.

#include <cxxabi.h>

#include "allocator.h"

namespace vramtape {

namespace {

void observe(
    void* user, int device, std::uint64_t segment_bytes, std::uint64_t allowed_bytes, std::uint64_t free_bytes) {
    try {
        (*static_cast<OutOfMemoryObserver*>(user))(device, segment_bytes, allowed_bytes, free_bytes);
    } catch (const abi::__forced_unwind&) {
        throw;  // Python ends the thread, which the library parks.
    } catch (...) {
        observers_failure = std::current_exception();
    }
}

}  // namespace

bool Allocator::isHistoryEnabled() {
    return history_.is_recording();
}

#if TORCH_SINCE(11)
void Allocator::recordHistory(
    bool enabled, CreateContextFn recorder, std::size_t max_entries, RecordContext level, bool clear,
    const std::vector<std::string>& skip_actions) {
#elif TORCH_SINCE(8)
void Allocator::recordHistory(
    bool enabled, CreateContextFn recorder, std::size_t max_entries, RecordContext level, bool clear) {
    const std::vector<std::string> skip_actions;
#else
void Allocator::recordHistory(bool enabled, CreateContextFn recorder, std::size_t max_entries, RecordContext level) {
    const bool clear = false;
    const std::vector<std::string> skip_actions;
#endif
    history_.record({enabled, recorder, max_entries, level, clear, skip_actions});
}

void Allocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) {
    if (history_.is_recording()) {
        history_.annotate(metadata);
    }
}

void Allocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
    // Observers stay until the process ends.
    check(vramtape_add_oom_observer(&observe, new OutOfMemoryObserver(std::move(observer))));
}

void Allocator::attachAllocatorTraceTracker(Tracker tracker) {
    history_.track(std::move(tracker));
}

#if TORCH_SINCE(8)
void Allocator::pushCompileContext(std::string& text) {
    if (history_.is_recording()) {
        History::push_compile_context(text);
    }
}

void Allocator::popCompileContext() {
    if (history_.is_recording()) {
        History::pop_compile_context();
    }
}
#endif

#if TORCH_SINCE(10)
void Allocator::setUserMetadata(const std::string& text) {
    History::set_user_metadata(text);
}

std::string Allocator::getUserMetadata() {
    return History::user_metadata();
}
#endif

#if TORCH_SINCE(12)
void Allocator::attachOomRejectionObserver(torch_api::OomRejectionObserver observer) {
    using Observer = torch_api::OomRejectionObserver;
    // An observer's exception is printed and not propagated, as in PyTorch's own allocator.
    const auto observe = [](void* user, int device, std::uint64_t segment_bytes, std::uint64_t reserved_bytes,
                            std::uint64_t total_bytes) {
        try {
            (*static_cast<Observer*>(user))(device, segment_bytes, reserved_bytes, total_bytes);
        } catch (const std::exception& error) {
            warn("exception in an OOM rejection observer", error.what());
        } catch (const abi::__forced_unwind&) {
            throw;
        } catch (...) {
            warn("exception in an OOM rejection observer", "of an unknown kind");
        }
    };
    check(vramtape_add_oom_rejection_observer(observe, new Observer(std::move(observer))));
}

Context Allocator::getContextForPointer(const void* ptr) {
    for (int device = 0; device < device_count_; ++device) {
        if (auto context =
                history_.context_of_block(static_cast<DeviceIndex>(device), reinterpret_cast<std::size_t>(ptr))) {
            return context;
        }
    }
    return nullptr;
}
#endif

#if TORCH_SINCE(14)
bool Allocator::supportsUserMetadata() {
    return true;
}

void Allocator::annotateMemory(const void* ptr, const std::string& text) {
    VramtapeAllocation known{};
    TORCH_CHECK(
        vramtape_allocation(const_cast<void*>(ptr), &known) == VRAMTAPE_OK,
        "annotateMemory: no live allocation found at pointer ", ptr);
    const History::Call call(history_, RecordContext::ALLOC);
    history_.annotate_block(reinterpret_cast<std::size_t>(ptr), known, text);
}
#endif

}  // namespace vramtape
