// Random calls with arguments that are right, stale or nonsense: random SEED. Nothing crashes, and the heaps hold
// together.

#include "check.h"

enum { kKnown = 64, kPools = 4 };

static uint64_t state;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static bool one_in(unsigned chances) {
    return next() % chances == 0;
}

// Addresses that the library gave, freed ones included.
static void* known[kKnown];

static void* pointer(void) {
    switch (next() % 16) {
        case 0:
            return NULL;
        case 1:
            return (void*)(uintptr_t)next();
        case 2:
            return (char*)known[next() % kKnown] + next() % 4096;
        default:
            return known[next() % kKnown];
    }
}

static int device(void) {
    return one_in(40) ? (int)next() : (int)(next() % 2);
}

static size_t size(void) {
    switch (next() % 40) {
        case 0:
            return (size_t)next();
        case 1:
            return 0;
        case 2:
            return (size_t)(next() % ((uint64_t)60 << 30));
        default:
            return (size_t)(next() % (12 << 20));
    }
}

static void* stream(void) {
    return one_in(50) ? (void*)(uintptr_t)next() : (void*)(uintptr_t)(next() % 3 * 16);
}

static double fraction(void) {
    static const double kFractions[] = {1.0, 1.0, 0.9, 0.5, 0.0, -1.0, 2.0, 1.0 / 0.0, 0.0 / 0.0};
    return kFractions[next() % 9];
}

static const char* settings(void) {
    static const char* const kSettings[] = {
        "",
        "expandable_segments:True",
        "expandable_segments:False",
        "max_split_size_mb:40",
        "garbage_collection_threshold:0.5",
        "roundup_power2_divisions:[64:2,>:4]",
        "a:b",
        ",,:[",
        "\xc3\x28",
        "max_split_size_mb:99999999999999999999",
        NULL};
    return kSettings[next() % 11];
}

static void call(void) {
    static char text[4096];
    const uint64_t pool_0 = one_in(30) ? next() : 0, pool_1 = next() % kPools;
    void* filter = NULL;
    switch (next() % 60) {
        default:
            known[next() % kKnown] = vramtape_malloc(size(), device(), stream());
            break;
        case 20 ... 43:
            vramtape_free(pointer(), size(), device(), stream());
            break;
        case 44 ... 46:
            vramtape_record_stream(pointer(), stream());
            break;
        case 47:
            vramtape_empty_cache();
            break;
        case 48:
            filter = one_in(8) ? NULL : filter_new(stream());
            vramtape_begin_allocate_to_pool(device(), pool_0, pool_1, filter);
            filter_delete(filter);
            break;
        case 49:
            vramtape_end_allocate_to_pool(device(), pool_0, pool_1);
            break;
        case 50:
            vramtape_release_pool(device(), pool_0, pool_1);
            break;
        case 51:
            (void)vramtape_pool_create(device(), pool_0, pool_1);
            break;
        case 52:
            (void)vramtape_pool_empty_cache(device(), pool_0, pool_1);
            break;
        case 53:
            (void)vramtape_pool_set_use_on_oom(device(), pool_0, pool_1, one_in(2));
            (void)vramtape_pool_use_count(device(), pool_0, pool_1);
            break;
        case 54:
            (void)vramtape_stats(device(), text, next() % sizeof text);
            break;
        case 55:
            (void)vramtape_snapshot(device(), pool_0, pool_1, text, next() % sizeof text);
            break;
        case 56:
            vramtape_set_memory_fraction(fraction(), device());
            break;
        case 57:
            (void)vramtape_set_settings(settings());
            break;
        case 58:
            (void)vramtape_base_alloc(pointer(), one_in(2) ? NULL : &(size_t){0});
            (void)vramtape_mark((int)(next() % 7), settings());
            break;
        case 59:
            if (one_in(2)) {
                (void)vramtape_reset_peak_stats(device());
            } else {
                (void)vramtape_reset_accumulated_stats(device());
            }
            if (one_in(20)) {
                (void)vramtape_pool_set_no_split(device(), pool_0, pool_1);
            }
            break;
    }
}

int main(int count, char** arguments) {
    CHECK(count == 3);
    state = strtoull(arguments[1], NULL, 10) | 1;
    const int calls = atoi(arguments[2]);
    CHECK(calls > 0);
    for (int i = 0; i < calls; ++i) {
        call();
        if (i % 500 == 0 && (vramtape_check(0) != VRAMTAPE_OK || vramtape_check(1) != VRAMTAPE_OK)) {
            fprintf(stderr, "seed %s, call %d: %s\n", arguments[1], i, vramtape_last_error());
            return 1;
        }
    }
    const char* error = vramtape_last_error();
    if (error != NULL && strstr(error, "internal error") != NULL) {
        fprintf(stderr, "seed %s: %s\n", arguments[1], error);
        return 1;
    }
    return 0;
}
