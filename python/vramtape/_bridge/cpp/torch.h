// The included headers of PyTorch, and the differences between its versions.
#pragma once

// As PyTorch's own wheels are built: without it their headers deny expandable segments.
#define PYTORCH_C10_DRIVER_API_SUPPORTED

#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/csrc/profiler/combined_traceback.h>

#define TORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= (minor)))

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "visit.h"
#include "vramtape.h"

namespace vramtape {

namespace torch_api = c10::cuda::CUDACachingAllocator;

using c10::DeviceIndex;
using c10::GatheredContext;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::MempoolId_t;
using torch_api::AllocatorState;
using torch_api::CheckpointDelta;
using torch_api::CreateContextFn;
using torch_api::CUDAAllocator;
using torch_api::OutOfMemoryObserver;
using torch_api::RecordContext;
using torch_api::SegmentInfo;
using torch_api::ShareableHandle;
using torch_api::SnapshotInfo;
using torch_api::TraceEntry;

using Context = std::shared_ptr<GatheredContext>;
using Tracker = torch_api::AllocatorTraceTracker;
#if TORCH_SINCE(11)
using c10::CachingDeviceAllocator::AnnotationEntry;
#else
using torch_api::AnnotationEntry;
#endif

// A pool's own allocator: shared with the pool, or before 2.11 merely lent to it.
#if TORCH_SINCE(11)
using Source = std::shared_ptr<CUDAAllocator>;
#else
using Source = CUDAAllocator*;
#endif

// Throws the library's last error as PyTorch's exception where a call did not go well.
inline void check(int answer) {
    TORCH_CHECK(answer == VRAMTAPE_OK, vramtape_last_error());
}

// The same for a call that visits: what a visitor threw comes first.
inline void check(int answer, Visits& visits) {
    visits.end();
    check(answer);
}

// A warning where nothing may be thrown.
inline void warn(const char* what, const char* why) noexcept {
    try {
        TORCH_WARN("vramtape: ", what, ": ", why);
    } catch (...) {  // There is no memory for it, or a handler of warnings raises.
    }
}

}  // namespace vramtape
