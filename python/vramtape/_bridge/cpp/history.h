// PyTorch's memory history: stacks beside blocks, the ring of trace entries, trace trackers and annotations.
//
// PyTorch's own recorder gathers the stack, before any lock of ours, since it may wait for Python's. The library then
// reports its entries on the same thread, with the device's lock held (vramtape_watch); the stack is in a variable.
// Without a recording or a tracker the library reports nothing, and a call costs one load.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "torch.h"

namespace vramtape {

// The newest entries, oldest first. Leaked with its owner: entries hold Python's objects, which are gone at exit.
template <typename Entry>
class Ring {
 public:
    void set_capacity(std::size_t entries) {
        std::vector<Entry> all = this->entries();
        capacity_ = std::max<std::size_t>(1, entries);
        if (all.size() > capacity_) {
            all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(capacity_));
        }
        entries_ = std::move(all);
        next_ = 0;
    }

    void push(Entry entry) {
        if (entries_.size() < capacity_) {
            entries_.push_back(std::move(entry));
            return;
        }
        entries_[next_] = std::move(entry);
        next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
    }

    std::vector<Entry> entries() const {
        const auto oldest = entries_.begin() + static_cast<std::ptrdiff_t>(next_);
        std::vector<Entry> all(oldest, entries_.end());
        all.insert(all.end(), entries_.begin(), oldest);
        return all;
    }

    void clear() {
        entries_.clear();
        next_ = 0;
    }

 private:
    std::size_t capacity_ = 1;
    std::size_t next_ = 0;
    std::vector<Entry> entries_;
};

class History {
 public:
    // The options of `_record_memory_history`.
    struct Wish {
        bool enabled;
        CreateContextFn recorder;
        std::size_t max_entries;
        RecordContext level;
        bool clear;
        std::vector<std::string> skip_actions;
    };

    // Gathers the calling thread's stack for what the call is going to do, if calls of this level are to have one.
    class Call {
     public:
        Call(const History& history, RecordContext level) {
            if (C10_UNLIKELY(history.level_.load(std::memory_order_relaxed) >= level)) {
                begin(history);
            }
        }
        ~Call() {
            if (C10_UNLIKELY(has_begun_)) {
                end();
            }
        }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

     private:
        void begin(const History& history);
        void end();
        bool has_begun_ = false;
        Context outer_;
    };

    void record(Wish wish);
    bool is_recording() const;
    void track(Tracker tracker);
    void annotate(const std::vector<std::pair<std::string, std::string>>& metadata);

    // The entries of each device, with times of the clock, oldest first; then everything else of a snapshot's.
    std::vector<std::vector<TraceEntry>> traces(int device_count) const;
    std::vector<AnnotationEntry> annotations() const;
    Context context_of_block(DeviceIndex device, std::size_t address) const;
    Context context_of_segment(DeviceIndex device, std::size_t address) const;

#if TORCH_SINCE(14)
    // With the stack of the call in progress.
    void annotate_block(std::size_t address, const VramtapeAllocation& block, const std::string& text);
#endif

    // The pool of the snapshots that this thread takes from here on, for their entries.
    static void name_snapshots(MempoolId_t pool);

    static void push_compile_context(const std::string& text);
    static void pop_compile_context();
    static void set_user_metadata(const std::string& text);
    static std::string user_metadata();

 private:
    struct Device {
        std::unordered_map<std::size_t, Context> blocks;
        std::unordered_map<std::size_t, Context> segments;
        Ring<TraceEntry> entries;
    };

    static void see(void* user, const VramtapeTraceEntry* entry) noexcept;
    void warn_of_loss() const noexcept;
    void take(const VramtapeTraceEntry& entry);
    Context follow(Device& device, const VramtapeTraceEntry& entry);
    void keep(Device& device, TraceEntry entry);
    bool skips(TraceEntry::Action action) const;
    void watch_if_needed();

    std::atomic<RecordContext> level_{RecordContext::NEVER};
    std::atomic<CreateContextFn> recorder_{nullptr};
    // Entries that could not be kept, since the last warning.
    mutable std::atomic<std::size_t> lost_{0};
    // Guards what follows. Taken under the library's lock of a device, never the other way around.
    mutable std::mutex mutex_;
    bool recording_ = false;
    std::int64_t watch_ = -1;
    std::size_t max_entries_ = 1;
    std::unordered_set<int> skipped_;
    std::vector<Tracker> trackers_;
    std::vector<Device> devices_;
    Ring<AnnotationEntry> annotations_;
    c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace vramtape
