// Statistics and snapshots.

#include "allocator.h"

namespace vramtape {

namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

// PyTorch counts what happens in its own units; we have the numbers already.
void put(Stat& out, const VramtapeStat& stat) {
    out.current = stat.current;
    out.peak = stat.peak;
    out.allocated = stat.allocated;
    out.freed = stat.freed;
}

void put(StatArray& out, const VramtapeStatArray& stats) {
    put(out[static_cast<std::size_t>(StatType::AGGREGATE)], stats.all);
    put(out[static_cast<std::size_t>(StatType::SMALL_POOL)], stats.small_pool);
    put(out[static_cast<std::size_t>(StatType::LARGE_POOL)], stats.large_pool);
}

#if TORCH_SINCE(13)
void put_pool(std::uint64_t first, std::uint64_t second, const VramtapeStatArray* bytes, void* user) noexcept {
    Visited<DeviceStats>::run(user, [&](DeviceStats& stats) {
        put(stats.reserved_bytes_by_private_pools[MempoolId_t{first, second}], *bytes);
    });
}
#endif

// Where a device's segments go, and whose stacks they get.
struct Snapshot {
    std::vector<SegmentInfo>& segments;
    const History& history;
    DeviceIndex device;
};

void put_segment_into(const Snapshot& snapshot, const VramtapeSegment* segment) {
    const auto& [segments, history, device] = snapshot;
    SegmentInfo& info = segments.emplace_back();
    info.device = device;
    info.address = segment->addr;
    info.total_size = segment->size;
    info.stream = reinterpret_cast<cudaStream_t>(segment->stream);
    info.is_large = segment->is_large;
    info.is_expandable = segment->is_expandable;
    info.owner_private_pool_id = {segment->pool_0, segment->pool_1};
    info.context_when_allocated = history.context_of_segment(device, segment->addr);
    info.blocks.reserve(segment->block_count);
    for (const auto* block = segment->blocks; block != segment->blocks + segment->block_count; ++block) {
        auto& out = info.blocks.emplace_back();
        out.size = block->size;
        out.requested_size = block->requested_size;
        out.allocated = block->allocated;
        out.active = block->active;
        if (block->active) {
            out.context_when_allocated = history.context_of_block(device, block->addr);
            info.active_size += block->size;
            info.requested_size += block->requested_size;
        }
        if (block->allocated) {
            info.allocated_size += block->size;
        }
    }
}

void put_segment(const VramtapeSegment* segment, void* user) noexcept {
    Visited<Snapshot>::run(user, [&](Snapshot& snapshot) { put_segment_into(snapshot, segment); });
}

#if TORCH_SINCE(10)
using Sizes = std::vector<torch_api::StreamSegmentSize>;

void put_expandable(std::uint64_t stream, bool is_small, std::uint64_t mapped_bytes, void* user) noexcept {
    Visited<Sizes>::run(user, [&](Sizes& sizes) {
        sizes.emplace_back(reinterpret_cast<cudaStream_t>(stream), is_small, mapped_bytes);
    });
}
#endif

// The settings as PyTorch parsed them: what it reads and prints of them is its own.
void put_settings(torch_api::AllocatorConfigInfo& info) {
    using Cuda = torch_api::CUDAAllocatorConfig;
#if TORCH_SINCE(10)
    using Common = c10::CachingAllocator::AcceleratorAllocatorConfig;
    info.garbage_collection_threshold = Common::garbage_collection_threshold();
    info.max_split_size = Common::max_split_size();
    info.last_allocator_settings = Common::last_allocator_settings();
    info.roundup_power2_divisions = Common::roundup_power2_divisions();
#else
    info.garbage_collection_threshold = Cuda::garbage_collection_threshold();
    info.max_split_size = Cuda::max_split_size();
    info.last_allocator_settings = Cuda::last_allocator_settings();
    info.roundup_power2_divisions = Cuda::roundup_power2_divisions();
#endif
#if TORCH_SINCE(9)
    info.graph_capture_record_stream_reuse = Cuda::graph_capture_record_stream_reuse();
#endif
#if TORCH_SINCE(13)
    info.max_round_threshold = Common::pinned_max_round_threshold();
    info.max_cached_size = Common::pinned_max_cached_size();
#endif
    info.pinned_num_register_threads = Cuda::pinned_num_register_threads();
    info.expandable_segments = Cuda::expandable_segments();
    info.release_lock_on_malloc = Cuda::release_lock_on_cudamalloc();
    info.pinned_use_host_register = Cuda::pinned_use_cuda_host_register();
}

}  // namespace

DeviceStats Allocator::getDeviceStats(DeviceIndex device) {
    require(device);
    VramtapeDeviceStats stats{};
    check(vramtape_device_stats(device, &stats));
    DeviceStats out;
    put(out.allocation, stats.allocation);
    put(out.segment, stats.segment);
    put(out.active, stats.active);
    put(out.inactive_split, stats.inactive_split);
    put(out.allocated_bytes, stats.allocated_bytes);
    put(out.reserved_bytes, stats.reserved_bytes);
    put(out.active_bytes, stats.active_bytes);
    put(out.inactive_split_bytes, stats.inactive_split_bytes);
    put(out.requested_bytes, stats.requested_bytes);
    put(out.oversize_allocations, stats.oversize_allocations);
    put(out.oversize_segments, stats.oversize_segments);
    out.num_alloc_retries = stats.num_alloc_retries;
    out.num_ooms = stats.num_ooms;
    out.num_sync_all_streams = stats.num_sync_all_streams;
    out.num_device_alloc = stats.num_device_alloc;
    out.num_device_free = stats.num_device_free;
    out.max_split_size = stats.max_split_size;
#if TORCH_SINCE(12)
    out.num_oom_rejections = stats.num_oom_rejections;
#endif
#if TORCH_SINCE(13)
    Visited<DeviceStats> visited{out, {}};
    check(vramtape_private_pool_stats(device, &put_pool, &visited), visited.visits);
#endif
    return out;
}

void Allocator::resetAccumulatedStats(DeviceIndex device) {
    require(device);
    check(vramtape_reset_accumulated_stats(device));
}

void Allocator::resetPeakStats(DeviceIndex device) {
    require(device);
    check(vramtape_reset_peak_stats(device));
}

void Allocator::cacheInfo(DeviceIndex device, std::size_t* largest) {
    check(vramtape_cache_info(device, largest));
}

void* Allocator::getBaseAllocation(void* ptr, std::size_t* size) {
    return vramtape_base_alloc(ptr, size);
}

#if TORCH_SINCE(11)
SnapshotInfo Allocator::snapshot(MempoolId_t pool, bool include_traces) {
#elif TORCH_SINCE(8)
SnapshotInfo Allocator::snapshot(MempoolId_t pool) {
    const bool include_traces = true;
#else
// Of the pool of the context that is open, which is how a MemPool asked for its own.
SnapshotInfo Allocator::snapshot() {
    auto* const active = c10::cuda::MemPoolContext::getActiveMemPool();
    const MempoolId_t pool = active != nullptr ? active->id() : MempoolId_t{0, 0};
    const bool include_traces = true;
#endif
    SnapshotInfo info;
    info.external_annotations = history_.annotations();
    if (include_traces) {
        info.device_traces = history_.traces(device_count_);
    }
    History::name_snapshots(pool);
    for (int device = 0; device < device_count_; ++device) {
        Snapshot snapshot{info.segments, history_, static_cast<DeviceIndex>(device)};
        Visited<Snapshot> visited{snapshot, {}};
        check(vramtape_visit_segments(device, pool.first, pool.second, &put_segment, &visited), visited.visits);
    }
    put_settings(info.config_metadata);
    return info;
}

#if TORCH_SINCE(10)
std::vector<torch_api::StreamSegmentSize> Allocator::getExpandableSegmentSizes(DeviceIndex device) {
    require(device);
    std::vector<torch_api::StreamSegmentSize> sizes;
    Visited<Sizes> visited{sizes, {}};
    check(vramtape_visit_expandable_segments(device, &put_expandable, &visited), visited.visits);
    return sizes;
}
#endif

}  // namespace vramtape
