// A visitor of the bridge for which there is no memory: its exception comes out of the call when the library has
// returned, and the device's lock is free.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "visit.h"
#include "vramtape.h"

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static bool has_memory = true;

void* operator new(std::size_t size) {
    void* const ptr = has_memory ? std::malloc(size) : nullptr;
    if (ptr == nullptr) {
        throw std::bad_alloc();
    }
    return ptr;
}

void operator delete(void* ptr) noexcept {
    std::free(ptr);
}

void operator delete(void* ptr, std::size_t) noexcept {
    std::free(ptr);
}

using Sizes = std::vector<std::uint64_t>;
static int visits = 0;

static void put_segment(const VramtapeSegment* segment, void* user) noexcept {
    ++visits;
    vramtape::Visited<Sizes>::run(user, [&](Sizes& sizes) { sizes.push_back(segment->size); });
}

int main() {
    void *small = vramtape_malloc(1000, 0, nullptr), *large = vramtape_malloc(30 << 20, 0, nullptr);
    CHECK(small != nullptr && large != nullptr);
    Sizes sizes;
    vramtape::Visited<Sizes> visited{sizes, {}};
    has_memory = false;
    CHECK(vramtape_visit_segments(0, 0, 0, &put_segment, &visited) == VRAMTAPE_OK);
    has_memory = true;
    CHECK(visits == 2 && sizes.empty());
    bool has_thrown = false;
    try {
        visited.visits.end();
    } catch (const std::bad_alloc&) {
        has_thrown = true;
    }
    CHECK(has_thrown);
    CHECK(vramtape_visit_segments(0, 0, 0, &put_segment, &visited) == VRAMTAPE_OK);
    visited.visits.end();
    CHECK(sizes.size() == 2);
    vramtape_free(small, 1000, 0, nullptr);
    vramtape_free(large, 30 << 20, 0, nullptr);
    CHECK(vramtape_check(0) == VRAMTAPE_OK);
    return 0;
}
