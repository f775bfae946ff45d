// Watchers are called with every entry of PyTorch's trace, and observers at every out of memory.

#include "check.h"

static void* const kStream = (void*)0x10;
static void* const kOtherStream = (void*)0x20;

enum { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, SNAPSHOT, OOM };

struct Log {
    struct VramtapeTraceEntry entries[64];
    size_t count;
};

static void note(void* user, const struct VramtapeTraceEntry* entry) {
    struct Log* log = user;
    CHECK(log->count < 64);
    log->entries[log->count++] = *entry;
}

static bool is_next(struct Log* log, size_t* at, int action, const void* address, uint64_t size) {
    const struct VramtapeTraceEntry* entry = &log->entries[(*at)++];
    return *at <= log->count && entry->action == action && entry->device == 0 && entry->address == (uint64_t)address &&
           entry->size == size && entry->stream == (uint64_t)kStream && entry->pool_0 == 0 && entry->pool_1 == 0;
}

struct Seen {
    int count;
    uint64_t segment_bytes, allowed_bytes, free_bytes;
};

static void observe(void* user, int device, uint64_t segment_bytes, uint64_t allowed_bytes, uint64_t free_bytes) {
    struct Seen* seen = user;
    CHECK(device == 0);
    *seen = (struct Seen){seen->count + 1, segment_bytes, allowed_bytes, free_bytes};
    // No lock is held.
    CHECK(contains(text_of_stats(0), "\"num_ooms\":1"));
}

static void watching(void) {
    void* before = vramtape_malloc(700, 0, kStream);
    struct Log first = {0}, second = {0};
    const int64_t one = vramtape_watch(note, &first), two = vramtape_watch(note, &second);
    CHECK(one > 0 && two > 0 && one != two);

    void* large = vramtape_malloc(3000000, 0, kStream);
    vramtape_free(before, 700, 0, kStream);
    vramtape_record_stream(large, kOtherStream);
    vramtape_free(large, 3000000, 0, kStream);
    void* again = vramtape_malloc(3000000, 0, kStream);
    CHECK(vramtape_unwatch(one) == VRAMTAPE_OK);
    vramtape_free(again, 3000000, 0, kStream);
    CHECK(vramtape_unwatch(two) == VRAMTAPE_OK);
    vramtape_empty_cache();

    size_t at = 0;
    CHECK(is_next(&first, &at, SEGMENT_ALLOC, large, 20 << 20));
    CHECK(is_next(&first, &at, ALLOC, large, 3000000));
    CHECK(is_next(&first, &at, FREE_REQUESTED, before, 700));
    CHECK(is_next(&first, &at, FREE_COMPLETED, before, 700));
    CHECK(is_next(&first, &at, FREE_REQUESTED, large, 3000000));
    CHECK(is_next(&first, &at, FREE_COMPLETED, large, 3000000));
    CHECK(again == large && is_next(&first, &at, ALLOC, large, 3000000));
    CHECK(at == first.count);
    CHECK(second.count == first.count + 2);
    for (size_t i = 0; i < at; ++i) {
        // The end is padding.
        const size_t size = offsetof(struct VramtapeTraceEntry, cuts_segment) + sizeof first.entries[0].cuts_segment;
        CHECK(memcmp(&first.entries[i], &second.entries[i], size) == 0);
        // Only the first of the two allocations that leave a rest of the segment.
        CHECK(first.entries[i].cuts_segment == (i == 1));
    }

    REFUSED(CHECK(vramtape_unwatch(one) == VRAMTAPE_ERROR), "no trace watcher");
    REFUSED(CHECK(vramtape_watch(NULL, NULL) == -1), "watcher is NULL");
}

// A device that opens later is watched too.
static void watching_ahead(void) {
    struct Log log = {0};
    const int64_t number = vramtape_watch(note, &log);
    void* ptr = vramtape_malloc(1, 1, kStream);
    vramtape_free(ptr, 1, 1, kStream);
    CHECK(vramtape_unwatch(number) == VRAMTAPE_OK);
    CHECK(log.count == 4 && log.entries[0].action == SEGMENT_ALLOC && log.entries[0].device == 1);
}

static void observing(void) {
    struct Seen seen = {0};
    struct Log log = {0};
    CHECK(vramtape_add_oom_observer(observe, &seen) == VRAMTAPE_OK);
    REFUSED(CHECK(vramtape_add_oom_observer(NULL, NULL) == VRAMTAPE_ERROR), "observer is NULL");
    const int64_t number = vramtape_watch(note, &log);
    vramtape_set_memory_fraction(0.5, 0);
    REFUSED(CHECK(vramtape_malloc((size_t)1 << 45, 0, kStream) == NULL), "CUDA out of memory");
    CHECK(vramtape_unwatch(number) == VRAMTAPE_OK);
    CHECK(seen.count == 1 && seen.segment_bytes == (uint64_t)1 << 45 && seen.allowed_bytes < seen.segment_bytes);
    CHECK(log.count == 1 && log.entries[0].action == OOM && log.entries[0].address == seen.free_bytes);
}

int main(void) {
    watching();
    watching_ahead();
    observing();
    return 0;
}
