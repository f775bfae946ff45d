// The route `observe`: PyTorch's own allocator stays, and each entry of its trace is passed to libvramtape.so.

#include "torch.h"

namespace vramtape {

namespace {

// Our number of a stack, where PyTorch's history has frames; it has none, so that PyTorch's snapshots have none either.
struct Stack final : torch::CapturedTraceback {
    explicit Stack(std::uint32_t number) : number(number) {}

    const std::uint32_t number;
};

// Called before PyTorch's lock is taken: no thread may wait for Python's lock while it holds PyTorch's.
Context gather() {
    return std::make_shared<Stack>(vramtape_observe_stack());
}

// Whether the settings want the stacks of frees. Without one of its own PyTorch gives a free that of its allocation.
bool has_stacks_of_frees = false;

// PyTorch calls a recorder of stacks while it has a history, if only of one entry. A history that is there already
// keeps its own recorder.
void record_stacks() {
    const int calls = vramtape_observe_stacks();
    if (calls == 0 || torch_api::get()->isHistoryEnabled()) {
        return;
    }
    has_stacks_of_frees = calls == 2;
    const auto when = has_stacks_of_frees ? RecordContext::ALL : RecordContext::ALLOC;
#if TORCH_SINCE(11)
    torch_api::get()->recordHistory(true, &gather, 1, when, false, {});
#elif TORCH_SINCE(8)
    torch_api::get()->recordHistory(true, &gather, 1, when, false);
#else
    torch_api::get()->recordHistory(true, &gather, 1, when);
#endif
}

// Under PyTorch's lock of the device, on the thread that acts.
void record_entry(const TraceEntry& entry) {
    VramtapeTraceEntry seen{};
    const bool is_free = entry.action_ == TraceEntry::FREE_REQUESTED || entry.action_ == TraceEntry::FREE_COMPLETED;
    const auto* stack = dynamic_cast<const Stack*>(entry.context_.get());
    if (stack != nullptr && (has_stacks_of_frees || !is_free)) {
        seen.stack = stack->number;
    }
    seen.action = entry.action_;
    seen.device = entry.device_;
    seen.address = entry.addr_;
    seen.size = entry.size_;
    seen.stream = reinterpret_cast<std::uint64_t>(entry.stream_);
#if TORCH_SINCE(8)
    seen.pool_0 = entry.mempool_.first;
    seen.pool_1 = entry.mempool_.second;
#else
    seen.pool_0 = seen.pool_1 = UINT64_MAX;  // PyTorch does not report it.
#endif
    vramtape_observe_entry(&seen);
}

SnapshotInfo snapshot_without_traces() {
#if TORCH_SINCE(11)
    return torch_api::get()->snapshot({0, 0}, false);
#elif TORCH_SINCE(8)
    return torch_api::get()->snapshot({0, 0});
#else
    return torch_api::get()->snapshot();
#endif
}

void describe(DeviceIndex device, const SnapshotInfo& snapshot) {
    std::vector<std::vector<VramtapeObservedBlock>> blocks;
    std::vector<VramtapeObservedSegment> segments;
    for (const SegmentInfo& found : snapshot.segments) {
        if (found.device != device) {
            continue;
        }
        auto& list = blocks.emplace_back();
        for (const auto& block : found.blocks) {
            const int status = block.allocated ? 0 : block.active ? 1 : 2;
            list.push_back({block.size, block.requested_size, status});
        }
        VramtapeObservedSegment segment{};
        segment.address = found.address;
        segment.size = found.total_size;
        segment.stream = reinterpret_cast<std::uint64_t>(found.stream);
        segment.pool_0 = found.owner_private_pool_id.first;
        segment.pool_1 = found.owner_private_pool_id.second;
        segment.is_large = found.is_large;
        segment.is_expandable = found.is_expandable;
        segment.blocks = list.data();
        segment.block_count = list.size();
        segments.push_back(segment);
    }
    if (!segments.empty()) {
        const double fraction = torch_api::get()->getMemoryFraction(device);
        check(vramtape_observe_base(device, fraction, segments.data(), segments.size()));
    }
}

void observe() {
    check(vramtape_observe_begin());
    vramtape_set_autograd(&ask_autograd);
    record_stacks();
    // Entries between this and the snapshot are part of the snapshot, whose own entry marks its end.
    torch_api::get()->attachAllocatorTraceTracker(&record_entry);
    const SnapshotInfo snapshot = snapshot_without_traces();
    const std::string& settings = snapshot.config_metadata.last_allocator_settings;
    if (!settings.empty()) {
        check(vramtape_set_settings(settings.c_str()));
    }
    for (DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
        describe(device, snapshot);
    }
    check(vramtape_observe_ready());
}

}  // namespace

}  // namespace vramtape

// Observes PyTorch's allocator for the rest of the process; CUDA has to be initialised. NULL, or why that was not
// possible; the text lives until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* vramtape_bridge_observe() {
    thread_local std::string reason;
    try {
        vramtape::observe();
        return nullptr;
    } catch (const c10::Error& error) {
        reason = error.what_without_backtrace();
    } catch (const std::exception& error) {
        reason = error.what();
    }
    return reason.c_str();
}
