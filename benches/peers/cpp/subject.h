// A measured subject: an allocator, how its turn begins, and its counts.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// An allocator's counts on a device since the process began.
struct Counts {
    int64_t allocations = 0;
    int64_t frees = 0;
    int64_t allocated_bytes = 0;
};

struct Subject {
    const char* name;
    // Operations before any is timed.
    long warm_up;
    void* (*allocate)(size_t size, int device, void* stream);
    void (*release)(void* ptr, size_t size, int device, void* stream);
    std::function<void()> begin;
    std::function<void()> empty_cache;
    std::function<Counts(int device)> counts;
    // Fails unless the turn left exactly `events` behind, where the subject writes them down.
    std::function<void(int64_t events)> end;
};

// Enough for caches and branch predictors.
constexpr long kWarmUp = 2'000;
