// The operations that every subject performs, and checks of their results.
//
// An operation is an allocation and its free: a pair of one size, or one step among 1,000 live blocks of mixed
// sizes, which frees one at random and allocates another in its place.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fail.h"
#include "subject.h"

// Where a thread allocates.
struct Place {
    int device;
    void* stream;
};

struct Operation {
    std::string name;
    // Of a pair; 0 is mixed sizes.
    size_t size_bytes;
    std::vector<Place> places;  // One thread each.
};

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t below(uint64_t limit) {
        state_ += 0x9e3779b97f4a7c15;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return (z ^ (z >> 31)) % limit;
    }

 private:
    uint64_t state_;
};

// The work of one thread on one subject.
class Work {
 public:
    static constexpr size_t kLive = 1'000;

    Work(const Subject& subject, const Operation& operation, size_t thread)
        : subject_(subject), operation_(operation), place_(operation.places[thread]) {
        if (operation.size_bytes == 0)
            script(thread);
    }

    // Brings the subject to where it can be measured.
    void prepare(long warm_up) {
        if (operation_.size_bytes == 0) {
            for (size_t i = 0; i < kLive; ++i) live_.push_back(take(steps_[i].size_bytes));
        } else {
            pair_ = take(operation_.size_bytes).ptr;
            give({pair_, operation_.size_bytes});
        }
        run(warm_up);
    }

    void run(long count) {
        operation_.size_bytes == 0 ? mixed(count) : pairs(count);
    }

    // Gives everything back, and fails unless what was handed out was right.
    void finish() {
        expect(strangers_ == 0, what() + "the cached block did not serve every time");
        auto by_address = live_;
        std::sort(by_address.begin(), by_address.end(), [](auto& a, auto& b) { return a.ptr < b.ptr; });
        for (size_t i = 1; i < by_address.size(); ++i) {
            const char* end = static_cast<char*>(by_address[i - 1].ptr) + by_address[i - 1].size_bytes;
            expect(end <= by_address[i].ptr, what() + "two live blocks overlap");
        }
        for (const Block& block : live_) give(block);
    }

    // Allocations of a thread that prepared with `warm_up` and ran `count`.
    static int64_t allocations(const Operation& operation, long warm_up, long count) {
        return (operation.size_bytes == 0 ? static_cast<int64_t>(kLive) : 1) + warm_up + count;
    }

    // The address that its pairs got.
    void* pair() const {
        return pair_;
    }

 private:
    struct Block {
        void* ptr;
        size_t size_bytes;
    };

    struct Step {
        uint32_t slot;
        uint32_t size_bytes;
    };

    // The same for every subject and round: as many sizes of each magnitude, 1 byte to 16 MiB.
    void script(size_t thread) {
        constexpr size_t kSteps = 1 << 16;
        constexpr uint64_t kSeed = 1;
        Random random(kSeed + thread);
        for (size_t i = 0; i < kSteps; ++i) {
            const uint64_t magnitude = uint64_t{1} << random.below(24);
            const auto size_bytes = static_cast<uint32_t>(magnitude + random.below(magnitude));
            steps_.push_back({static_cast<uint32_t>(random.below(kLive)), size_bytes});
        }
    }

    void pairs(long count) {
        const size_t size_bytes = operation_.size_bytes;
        for (long i = 0; i < count; ++i) {
            void* ptr = subject_.allocate(size_bytes, place_.device, place_.stream);
            strangers_ += ptr != pair_;
            subject_.release(ptr, size_bytes, place_.device, place_.stream);
        }
    }

    void mixed(long count) {
        for (long i = 0; i < count; ++i) {
            const Step& step = steps_[next_++ % steps_.size()];
            Block& block = live_[step.slot];
            subject_.release(block.ptr, block.size_bytes, place_.device, place_.stream);
            block = {subject_.allocate(step.size_bytes, place_.device, place_.stream), step.size_bytes};
        }
    }

    Block take(size_t size_bytes) {
        void* ptr = subject_.allocate(size_bytes, place_.device, place_.stream);
        expect(ptr, what() + "no memory");
        return {ptr, size_bytes};
    }

    void give(const Block& block) {
        subject_.release(block.ptr, block.size_bytes, place_.device, place_.stream);
    }

    std::string what() const {
        return std::string(subject_.name) + ", " + operation_.name + ": ";
    }

    const Subject& subject_;
    const Operation& operation_;
    const Place place_;
    void* pair_ = nullptr;
    int64_t strangers_ = 0;
    size_t next_ = 0;
    std::vector<Step> steps_;
    std::vector<Block> live_;
};
