// PyTorch's own CUDA caching allocator, called as PyTorch itself does, without and with its history.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <vector>

#include "subject.h"

namespace pytorch {

namespace native = c10::cuda::CUDACachingAllocator;

// The value in PyTorch's own tutorial on memory snapshots. Its default is no limit, which would measure
// the growing of a vector.
constexpr size_t kHistoryEntries = 100'000;

// Fills the history, which drops its entries whenever it is switched off: an operation makes three.
constexpr long kHistoryWarmUp = kHistoryEntries / 3 + 1'000;

inline void* allocate(size_t size, int, void* stream) {
    return native::raw_alloc_with_stream(size, static_cast<cudaStream_t>(stream));
}

inline void release(void* ptr, size_t, int, void*) {
    native::raw_delete(ptr);
}

inline void record_history(bool enabled) {
    native::recordHistory(enabled, nullptr, kHistoryEntries, native::RecordContext::NEVER, false, {});
}

inline Counts counts(int device) {
    const auto stats = native::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    return {stats.allocation[0].allocated, stats.allocation[0].freed, stats.allocated_bytes[0].current};
}

inline std::vector<Subject> subjects() {
    const auto nothing = [](int64_t) {};
    const auto empty_cache = [] { native::emptyCache(); };
    return {
        {"pytorch", kWarmUp, allocate, release, [] { record_history(false); }, empty_cache, counts, nothing},
        {"pytorch, history on", kHistoryWarmUp, allocate, release, [] { record_history(true); }, empty_cache, counts,
         [](int64_t) { record_history(false); }},
    };
}

}  // namespace pytorch
