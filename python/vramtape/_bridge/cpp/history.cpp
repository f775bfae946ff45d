#include "history.h"

namespace vramtape {

namespace {

// The stack of the call in progress on this thread; null while stacks of such calls are not recorded.
thread_local Context acting;

// The pool that this thread takes a snapshot of, which the library's entry does not name.
thread_local MempoolId_t pool_of_snapshot;

thread_local std::vector<std::string> compile_contexts;
thread_local std::string metadata;

#if TORCH_SINCE(8)
std::string compile_context() {
    return compile_contexts.empty() ? "N/A" : compile_contexts.back();
}
#endif

// The stack, or the other one where there is none.
const Context& first_of(const Context& one, const Context& other) {
    return one ? one : other;
}

Context find(const std::unordered_map<std::size_t, Context>& contexts, std::size_t address) {
    const auto found = contexts.find(address);
    return found == contexts.end() ? nullptr : found->second;
}

Context take_out(std::unordered_map<std::size_t, Context>& contexts, std::size_t address) {
    const auto found = contexts.find(address);
    if (found == contexts.end()) {
        return nullptr;
    }
    Context context = std::move(found->second);
    contexts.erase(found);
    return context;
}

}  // namespace

void History::Call::begin(const History& history) {
    const CreateContextFn recorder = history.recorder_.load(std::memory_order_acquire);
    if (recorder == nullptr) {
        return;
    }
    Context context = recorder();
    outer_ = std::exchange(acting, std::move(context));
    has_begun_ = true;
}

void History::Call::end() {
    acting = std::move(outer_);
}

void History::record(Wish wish) {
    TORCH_CHECK(wish.level == RecordContext::NEVER || wish.recorder);
    std::unique_lock<std::mutex> lock(mutex_);
    annotations_.set_capacity(wish.max_entries);
    annotations_.clear();
    max_entries_ = wish.max_entries;
    for (Device& device : devices_) {
        device.entries.set_capacity(max_entries_);
        if (!wish.enabled || wish.clear) {
            device.entries.clear();
        }
    }
    skipped_.clear();
#if TORCH_SINCE(11)
    for (const std::string& action : wish.skip_actions) {
        skipped_.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
    }
#endif
    recording_ = wish.enabled;
    recorder_.store(wish.enabled ? wish.recorder : nullptr, std::memory_order_release);
    level_.store(wish.enabled ? wish.level : RecordContext::NEVER, std::memory_order_relaxed);
    lock.unlock();
    watch_if_needed();
}

bool History::is_recording() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return recording_;
}

void History::track(Tracker tracker) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        trackers_.push_back(std::move(tracker));
    }
    watch_if_needed();
}

// The library takes its devices' locks to begin and end this, so none of ours may be held.
void History::watch_if_needed() {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> only(one_at_a_time);
    bool is_needed = false;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        is_needed = recording_ || !trackers_.empty();
    }
    if (is_needed && watch_ < 0) {
        watch_ = vramtape_watch(&History::see, this);
        TORCH_CHECK(watch_ >= 0, vramtape_last_error());
    } else if (!is_needed && watch_ >= 0) {
        check(vramtape_unwatch(std::exchange(watch_, -1)));
        // Later frees are not seen, so these stacks would stand beside other blocks.
        std::lock_guard<std::mutex> lock(mutex_);
        for (Device& device : devices_) {
            device.blocks.clear();
            device.segments.clear();
        }
    }
}

// Under the device's lock.
void History::see(void* user, const VramtapeTraceEntry* entry) noexcept {
    auto* const self = static_cast<History*>(user);
    try {
        self->take(*entry);
    } catch (...) {
        self->lost_.fetch_add(1, std::memory_order_relaxed);
    }
}

void History::warn_of_loss() const noexcept {
    if (const auto lost = lost_.exchange(0, std::memory_order_relaxed)) {
        const char* const why = "the process is out of memory, or a tracker of allocations throws";
        try {
            TORCH_WARN("vramtape: the memory history lost ", lost, " entries: ", why);
        } catch (...) {  // There is no memory for a warning either.
        }
    }
}

void History::take(const VramtapeTraceEntry& seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto at = static_cast<std::size_t>(seen.device);
    if (devices_.size() <= at) {
        const std::size_t known = devices_.size();
        devices_.resize(at + 1);
        for (std::size_t i = known; i <= at; ++i) {
            devices_[i].entries.set_capacity(max_entries_);
        }
    }
    Context context = follow(devices_[at], seen);
    if (level_.load(std::memory_order_relaxed) < RecordContext::ALLOC) {
        context = nullptr;
    }
    // clang-format off: it takes the commas between the preprocessor's lines apart.
    TraceEntry entry(
        static_cast<TraceEntry::Action>(seen.action),
        static_cast<DeviceIndex>(seen.device),
        seen.address,
        seen.size,
        reinterpret_cast<cudaStream_t>(seen.stream),
#if TORCH_SINCE(8)
        seen.action == TraceEntry::SNAPSHOT ? pool_of_snapshot : MempoolId_t{seen.pool_0, seen.pool_1},
#endif
        c10::getApproximateTime(),
        std::move(context)
#if TORCH_SINCE(8)
            ,
        compile_context()
#endif
#if TORCH_SINCE(10)
            ,
        metadata
#endif
    );
    // clang-format on
    keep(devices_[at], std::move(entry));
}

void History::keep(Device& device, TraceEntry entry) {
    for (const Tracker& tracker : trackers_) {
        tracker(entry);
    }
    if (recording_ && !skips(entry.action_)) {
        device.entries.push(std::move(entry));
    }
}

bool History::skips(TraceEntry::Action action) const {
    return !skipped_.empty() && skipped_.count(action) != 0;
}

// Keeps stacks beside blocks and segments, and says which one the entry has.
Context History::follow(Device& device, const VramtapeTraceEntry& entry) {
    const std::size_t address = entry.address;
    switch (static_cast<TraceEntry::Action>(entry.action)) {
        case TraceEntry::ALLOC:
            if (entry.cuts_segment) {
                device.segments.erase(address);
            }
            if (acting) {
                device.blocks[address] = acting;
            } else {
                device.blocks.erase(address);
            }
            return acting;
        case TraceEntry::FREE_REQUESTED:
            return first_of(acting, find(device.blocks, address));
        case TraceEntry::FREE_COMPLETED: {
            const Context of_block = take_out(device.blocks, address);
            return first_of(acting, of_block);
        }
        case TraceEntry::SEGMENT_ALLOC:
        case TraceEntry::SEGMENT_MAP:
            if (acting) {
                device.segments.emplace(address, acting);
            }
            return acting;
        case TraceEntry::SEGMENT_FREE:
        case TraceEntry::SEGMENT_UNMAP: {
            const Context of_segment = take_out(device.segments, address);
            return first_of(acting, of_segment);
        }
        case TraceEntry::SNAPSHOT:
            return nullptr;
        default:
            return acting;
    }
}

void History::annotate(const std::vector<std::pair<std::string, std::string>>& pairs) {
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    AnnotationEntry entry(device, c10::getApproximateTime());
    for (const auto& [name, value] : pairs) {
        entry.recordUserMetadata(name, value);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (recording_) {
        annotations_.push(std::move(entry));
    }
}

#if TORCH_SINCE(14)
void History::annotate_block(std::size_t address, const VramtapeAllocation& block, const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto at = static_cast<std::size_t>(block.device);
    if (at < devices_.size()) {
        keep(
            devices_[at],
            TraceEntry(
                TraceEntry::ANNOTATE, static_cast<DeviceIndex>(block.device), address, block.requested_size,
                reinterpret_cast<cudaStream_t>(block.stream), MempoolId_t{block.pool_0, block.pool_1},
                c10::getApproximateTime(), acting, compile_context(), text));
    }
}
#endif

std::vector<std::vector<TraceEntry>> History::traces(int device_count) const {
    warn_of_loss();
    std::vector<std::vector<TraceEntry>> all(static_cast<std::size_t>(device_count));
    auto clock = clock_;
    const auto to_ns = clock.makeConverter();
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t i = 0; i < std::min(all.size(), devices_.size()); ++i) {
        all[i] = devices_[i].entries.entries();
        for (TraceEntry& entry : all[i]) {
            entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
        }
    }
    return all;
}

std::vector<AnnotationEntry> History::annotations() const {
    auto clock = clock_;
    const auto to_ns = clock.makeConverter();
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<AnnotationEntry> all = annotations_.entries();
    for (AnnotationEntry& entry : all) {
        entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    }
    return all;
}

Context History::context_of_block(DeviceIndex device, std::size_t address) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto at = static_cast<std::size_t>(device);
    return at < devices_.size() ? find(devices_[at].blocks, address) : nullptr;
}

Context History::context_of_segment(DeviceIndex device, std::size_t address) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto at = static_cast<std::size_t>(device);
    return at < devices_.size() ? find(devices_[at].segments, address) : nullptr;
}

void History::name_snapshots(MempoolId_t pool) {
    pool_of_snapshot = pool;
}

void History::push_compile_context(const std::string& text) {
    compile_contexts.push_back(text);
}

void History::pop_compile_context() {
    if (!compile_contexts.empty()) {
        compile_contexts.pop_back();
    }
}

void History::set_user_metadata(const std::string& text) {
    metadata = text;
}

std::string History::user_metadata() {
    return metadata;
}

}  // namespace vramtape
