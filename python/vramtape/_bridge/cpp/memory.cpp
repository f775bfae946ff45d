// Allocation and free.

#include "allocator.h"

namespace vramtape {

thread_local std::exception_ptr observers_failure;

namespace {

// PyTorch's own limit, beyond which a request is a mistake.
constexpr std::size_t kExabyte = 1152921504606846976;

// Reports an allocation or a free to torch.profiler(profile_memory=True).
void report(void* ptr, std::int64_t size, DeviceIndex device) {
    VramtapeDeviceStats stats{};
    if (vramtape_device_stats(device, &stats) == VRAMTAPE_OK) {
        c10::reportMemoryUsageToProfiler(
            ptr, size, static_cast<std::size_t>(stats.allocated_bytes.all.current),
            static_cast<std::size_t>(stats.reserved_bytes.all.current), {c10::kCUDA, device});
    }
}

void trace_allocation(void* ptr) {
    if (const auto* python = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(python != nullptr)) {
        (*python)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(ptr));
    }
}

void trace_free(void* ptr) {
    if (const auto* python = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(python != nullptr)) {
        (*python)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(ptr));
    }
}

// Bytes of the block at the address, 0 where it is not ours.
std::int64_t block_bytes(void* ptr) {
    VramtapeAllocation known{};
    return vramtape_allocation(ptr, &known) == VRAMTAPE_OK ? static_cast<std::int64_t>(known.size) : 0;
}

DeviceIndex current_device() {
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return device;
}

void* malloc_or_throw(std::size_t size, DeviceIndex device, cudaStream_t stream) {
    try {
        return vramtape_malloc(size, device, stream);
    } catch (...) {
        if (observers_failure) {
            std::rethrow_exception(std::exchange(observers_failure, nullptr));
        }
        throw;
    }
}

}  // namespace

c10::DataPtr Allocator::allocate(std::size_t size) {
    const DeviceIndex device = current_device();
    void* ptr = raw_alloc_on(size, device, c10::cuda::getCurrentCUDAStream(device).stream());
    return {ptr, ptr, raw_deleter(), c10::Device(c10::kCUDA, device)};
}

c10::DeleterFnPtr Allocator::raw_deleter() const {
    return C10_UNLIKELY(is_uncached()) ? &delete_uncached : &delete_tensor;
}

void* Allocator::raw_alloc(std::size_t size) {
    const DeviceIndex device = current_device();
    return raw_alloc_on(size, device, c10::cuda::getCurrentCUDAStream(device).stream());
}

void* Allocator::raw_alloc_with_stream(std::size_t size, cudaStream_t stream) {
    return raw_alloc_on(size, current_device(), stream);
}

void Allocator::raw_delete(void* ptr) {
    if (ptr == nullptr) {
        return;
    }
    if (C10_UNLIKELY(is_uncached())) {
        delete_uncached(ptr);
        return;
    }
    TORCH_CHECK(give_back(ptr), "invalid device pointer: ", ptr);
}

void Allocator::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
    // Others' memory, from another process or from_blob, is not ours to keep waiting.
    if (data.get() != nullptr && data.get_deleter() == &delete_tensor) {
        vramtape_record_stream(data.get(), stream.stream());
    }
}

void Allocator::enable(bool value) {
    is_enabled_.store(value, std::memory_order_relaxed);
}

bool Allocator::isEnabled() const {
    return is_enabled_.load(std::memory_order_relaxed);
}

bool Allocator::is_uncached() const {
    return never_caches_ || !isEnabled();
}

void* Allocator::raw_alloc_on(std::size_t size, DeviceIndex device, cudaStream_t stream) {
    return C10_UNLIKELY(is_uncached()) ? take_uncached(size) : take(size, device, stream);
}

void* Allocator::take_uncached(std::size_t size) {
    TORCH_CHECK_WITH(OutOfMemoryError, size < kExabyte, "CUDA out of memory. Tried to allocate more than 1EB memory.");
    void* ptr = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&ptr, size));
    trace_allocation(ptr);
    return ptr;
}

void* Allocator::take(std::size_t size, DeviceIndex device, cudaStream_t stream) {
    if (size == 0) {
        return nullptr;
    }
    const History::Call call(history_, RecordContext::STATE);
    void* ptr = malloc_or_throw(size, device, stream);
    trace_allocation(ptr);
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
        report(ptr, block_bytes(ptr), device);
    }
    return ptr;
}

bool Allocator::give_back(void* ptr) {
    const History::Call call(history_, RecordContext::ALL);
    DeviceIndex device = 0;
    if (device_count_ > 1 && c10::cuda::GetDevice(&device) != cudaSuccess) {
        device = 0;  // The driver is ending. It is only a guess anyway.
    }
    trace_free(ptr);
    std::int64_t reported_bytes = 0;
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
        reported_bytes = block_bytes(ptr);
    }
    const bool is_ours = vramtape_delete(ptr, device) == VRAMTAPE_OK;
    if (C10_UNLIKELY(reported_bytes != 0)) {
        report(ptr, -reported_bytes, device);
    }
    return is_ours;
}

// Runs in destructors: a pointer that is not ours is counted by the library, not thrown.
void Allocator::delete_tensor(void* ptr) {
    if (ptr != nullptr) {
        instance().give_back(ptr);
    }
}

void Allocator::delete_uncached(void* ptr) {
    trace_free(ptr);
    C10_CUDA_CHECK(cudaFree(ptr));
}

}  // namespace vramtape
