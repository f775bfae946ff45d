// The time of one operation, with what has to be true of the subject before and after.

#pragma once

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "operation.h"
#include "subject.h"

// Threads take turns on locks and cores: their stretches are this much longer, so that beginning and end weigh
// little.
constexpr long kThreadsFactor = 10;

inline std::set<int> devices_of(const Operation& operation) {
    std::set<int> devices;
    for (const Place& place : operation.places) devices.insert(place.device);
    return devices;
}

inline Counts counts_of(const Subject& subject, const Operation& operation) {
    Counts sum;
    for (int device : devices_of(operation)) {
        const Counts counts = subject.counts(device);
        sum.allocations += counts.allocations;
        sum.frees += counts.frees;
        sum.allocated_bytes += counts.allocated_bytes;
    }
    return sum;
}

// Wall nanoseconds for each operation of all threads together, from when all of them are ready. They wait awake:
// a thread that slept would be timed waking up. Where there are fewer cores than threads they let others run.
inline double together(const Subject& subject, const Operation& operation, long warm_up, long count) {
    using Clock = std::chrono::steady_clock;
    const size_t size = operation.places.size();
    const bool is_crowded = size > std::thread::hardware_concurrency();
    std::vector<Work> works;
    for (size_t i = 0; i < size; ++i) works.emplace_back(subject, operation, i);
    std::atomic<size_t> ready{0};
    std::vector<Clock::time_point> begins(size), ends(size);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < size; ++i) {
        threads.emplace_back([&, i] {
            c10::cuda::set_device(static_cast<c10::DeviceIndex>(operation.places[i].device));
            works[i].prepare(warm_up);
            // A long warm-up has used up the thread's time slice; each subject begins with a fresh one.
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            for (++ready; ready < size;) {
                if (is_crowded)
                    std::this_thread::yield();
            }
            begins[i] = Clock::now();
            works[i].run(count);
            ends[i] = Clock::now();
        });
    }
    for (auto& thread : threads) thread.join();
    for (size_t i = 0; i < size; ++i) {
        c10::cuda::set_device(static_cast<c10::DeviceIndex>(operation.places[i].device));
        works[i].finish();
        for (size_t j = 0; j < i && operation.size_bytes != 0; ++j) {
            expect(works[i].pair() != works[j].pair(), operation.name + ": two streams got the same block");
        }
    }
    const std::chrono::duration<double, std::nano> wall =
        *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
    return wall.count() / static_cast<double>(count * static_cast<long>(size));
}

// One measurement, which is also a test: every allocation is counted once, freed once, and written down where the
// subject writes.
inline double measure(const Subject& subject, const Operation& operation, long count) {
    const auto threads = static_cast<long>(operation.places.size());
    const auto sharing = threads / static_cast<long>(devices_of(operation).size());
    const long warm_up = std::max(subject.warm_up / sharing, kWarmUp);
    if (threads > 1)
        count *= kThreadsFactor;
    subject.begin();
    const Counts before = counts_of(subject, operation);
    const double ns = together(subject, operation, warm_up, count);
    const Counts after = counts_of(subject, operation);
    const int64_t expected = threads * Work::allocations(operation, warm_up, count);
    const std::string what = std::string(subject.name) + ", " + operation.name + ": ";
    expect(after.allocations - before.allocations == expected, what + "not every allocation was counted");
    expect(after.frees - before.frees == expected, what + "not every free was counted");
    expect(after.allocated_bytes == 0, what + "memory is still allocated");
    subject.end(2 * expected);
    // Many live blocks leave a full cache, which would slow the operations after it.
    if (operation.size_bytes == 0)
        subject.empty_cache();
    return ns;
}
