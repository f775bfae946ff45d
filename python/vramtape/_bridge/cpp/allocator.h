// PyTorch's CUDA allocator over libvramtape.so: every method answers from its heaps.
//
// Derived from CUDAPluggableAllocator, which implements what newer versions of PyTorch make pure virtual; of its own
// state nothing is used, so that its process-wide lock and map are not on the way of an allocation.
#pragma once

#include <exception>
#include <set>

#include "history.h"

namespace vramtape {

using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

// The exception that an out-of-memory observer threw on this thread. The library called the observer and cannot be
// unwound, so the allocation throws it afterwards.
extern thread_local std::exception_ptr observers_failure;

class Allocator final : public Pluggable {
 public:
    Allocator();

    // Makes it PyTorch's allocator for the rest of the process.
    static void activate();
    // The process's; lives until its end, as deleters of tensors do.
    static Allocator& instance();

    // memory.cpp
    c10::DataPtr allocate(std::size_t size) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void* raw_alloc(std::size_t size) override;
    void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override;
    void raw_delete(void* ptr) override;
    void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
    void enable(bool value) override;
    bool isEnabled() const override;

    // settings.cpp
    void init(int device_count) override;
    bool initialized() override;
    std::string name() override;
    double getMemoryFraction(DeviceIndex device) override;
    void setMemoryFraction(double fraction, DeviceIndex device) override;

    // state.cpp
    DeviceStats getDeviceStats(DeviceIndex device) override;
    void resetAccumulatedStats(DeviceIndex device) override;
    void resetPeakStats(DeviceIndex device) override;
    void cacheInfo(DeviceIndex device, std::size_t* largest) override;
    void* getBaseAllocation(void* ptr, std::size_t* size) override;
#if TORCH_SINCE(8)
    SnapshotInfo snapshot(
        MempoolId_t pool
#if TORCH_SINCE(11)
        ,
        bool include_traces
#endif
        ) override;
#else
    SnapshotInfo snapshot() override;
#endif
#if TORCH_SINCE(10)
    std::vector<torch_api::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override;
#endif

    // pools.cpp
#if TORCH_SINCE(8)
    void emptyCache(MempoolId_t pool) override;
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, Source source) override;
    void setUseOnOOM(
        DeviceIndex device, MempoolId_t pool
#if TORCH_SINCE(11)
        ,
        bool use_on_oom
#endif
        ) override;
#if TORCH_SINCE(10)
    void setNoSplit(DeviceIndex device, MempoolId_t pool) override;
#endif
#else
    void emptyCache() override;
    void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t pool) override;
#endif
    int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override;
    void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override;
    void releasePool(DeviceIndex device, MempoolId_t pool) override;
    bool checkPoolLiveAllocations(
        DeviceIndex device, MempoolId_t pool, const std::unordered_set<void*>& expected) override;
    std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override;
    CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) override;

    // watch.cpp
    bool isHistoryEnabled() override;
    void recordHistory(
        bool enabled, CreateContextFn recorder, std::size_t max_entries, RecordContext level
#if TORCH_SINCE(8)
        ,
        bool clear
#endif
#if TORCH_SINCE(11)
        ,
        const std::vector<std::string>& skip_actions
#endif
        ) override;
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override;
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
    void attachAllocatorTraceTracker(Tracker tracker) override;
#if TORCH_SINCE(8)
    void pushCompileContext(std::string& text) override;
    void popCompileContext() override;
#endif
#if TORCH_SINCE(10)
    void setUserMetadata(const std::string& text) override;
    std::string getUserMetadata() override;
#endif
#if TORCH_SINCE(12)
    void attachOomRejectionObserver(torch_api::OomRejectionObserver observer) override;
    Context getContextForPointer(const void* ptr) override;
#endif
#if TORCH_SINCE(14)
    bool supportsUserMetadata() override;
    void annotateMemory(const void* ptr, const std::string& text) override;
#endif

    // sharing.cpp
    ShareableHandle shareIpcHandle(void* ptr) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
    void enablePeerAccess(DeviceIndex device, DeviceIndex owner) override;
    cudaError_t memcpyAsync(
        void* target, int target_device, const void* source, int source_device, std::size_t size, cudaStream_t stream,
        bool p2p_enabled) override;

 private:
    void* raw_alloc_on(std::size_t size, DeviceIndex device, cudaStream_t stream);
    void* take(std::size_t size, DeviceIndex device, cudaStream_t stream);
    void* take_uncached(std::size_t size);
    bool give_back(void* ptr);
    static void delete_tensor(void* ptr);
    static void delete_uncached(void* ptr);
    bool is_uncached() const;
    void require(DeviceIndex device) const;

    History history_;
#if !TORCH_SINCE(8)
    bool is_first_use(MempoolId_t pool);
    std::mutex sourced_mutex_;
    std::set<MempoolId_t> sourced_;  // Pools that have their own allocator by now; ids are not used again.
#endif
    int device_count_ = 0;
    std::atomic<bool> is_enabled_{true};
    const bool never_caches_;
};

}  // namespace vramtape
