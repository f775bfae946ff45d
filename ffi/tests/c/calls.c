// Every export once, used as it is meant.

#include "check.h"

static void* const kStream = (void*)0x10;
static void* const kOtherStream = (void*)0x20;

static void versions(void) {
    CHECK(vramtape_abi_version() == VRAMTAPE_ABI_VERSION);
    CHECK(strcmp(vramtape_version(), "0.1.0") == 0);
}

static void allocation(void) {
    CHECK(contains(text_of_stats(0), "\"num_device_alloc\":0"));
    vramtape_init(2);
    CHECK(vramtape_malloc(0, 0, kStream) == NULL);
    CHECK(vramtape_last_error() == NULL);

    void* small = vramtape_malloc(1000, 0, kStream);
    void* large = vramtape_malloc(3 << 20, 0, kStream);
    CHECK(small != NULL && large != NULL && small != large);
    CHECK(contains(text_of_stats(0), "\"num_device_alloc\":2"));
    CHECK(contains(text_of_snapshot(0, 0, 0), "\"state\":\"active_allocated\""));

    void* part = vramtape_malloc(1000, 0, kStream);
    size_t size = 0;
    CHECK(vramtape_base_alloc(part, &size) == small && size == 2 << 20);
    CHECK(vramtape_base_alloc(part, NULL) == small);

    vramtape_free(part, 1000, 0, kStream);
    vramtape_free(small, 1000, 0, kStream);
    CHECK(vramtape_malloc(1000, 0, kStream) == small);
    vramtape_free(small, 1000, 0, kStream);

    // Used by another stream: the free waits for it, here until the next allocation looks.
    vramtape_record_stream(large, kOtherStream);
    vramtape_free(large, 3 << 20, 0, kStream);
    CHECK(contains(text_of_snapshot(0, 0, 0), "\"state\":\"active_pending_free\""));
    CHECK(vramtape_malloc(3 << 20, 0, kStream) == large);
    vramtape_free(large, 3 << 20, 0, kStream);

    vramtape_empty_cache();
    CHECK(contains(text_of_snapshot(0, 0, 0), "{\"segments\":[]}"));
    CHECK(vramtape_error_count() == 0);
}

static void statistics(void) {
    void* ptr = vramtape_malloc(512, 0, kStream);
    vramtape_free(ptr, 512, 0, kStream);
    CHECK(vramtape_reset_peak_stats(0) == VRAMTAPE_OK);
    CHECK(vramtape_reset_accumulated_stats(0) == VRAMTAPE_OK);
    CHECK(contains(text_of_stats(0), "\"allocation\":{\"all\":{\"current\":0,\"peak\":0,\"allocated\":0,\"freed\":0}"));
    char tiny[4] = "xyz";
    CHECK(vramtape_stats(0, tiny, sizeof tiny) > 4 && tiny[0] == '\0');

    CHECK(vramtape_get_memory_fraction(0) == 1.0);
    vramtape_set_memory_fraction(0.25, 0);
    CHECK(vramtape_get_memory_fraction(0) == 0.25);
    vramtape_set_memory_fraction(1.0, 0);
    CHECK(vramtape_error_count() == 0);
}

static void peers(void) {
    // Memory in segments of its own, which the device does not map, is within reach as it is.
    CHECK(vramtape_enable_peer_access(0, 1) == VRAMTAPE_OK);
    CHECK(vramtape_enable_peer_access(0, 1) == VRAMTAPE_OK);
}

static void pools(void) {
    CHECK(vramtape_pool_create(0, 0, 7) == VRAMTAPE_OK);
    CHECK(vramtape_pool_use_count(0, 0, 7) == 1);
    CHECK(vramtape_pool_set_use_on_oom(0, 0, 7, true) == VRAMTAPE_OK);
    CHECK(vramtape_pool_set_use_on_oom(0, 0, 7, false) == VRAMTAPE_OK);
    CHECK(vramtape_pool_set_no_split(0, 0, 7) == VRAMTAPE_OK);

    void* filter = filter_new(kStream);
    vramtape_begin_allocate_to_pool(0, 0, 7, filter);
    filter_delete(filter);
    CHECK(vramtape_pool_use_count(0, 0, 7) == 2);
    void* inside = vramtape_malloc(5 << 20, 0, kStream);
    void* outside = vramtape_malloc(5 << 20, 0, kOtherStream);
    vramtape_end_allocate_to_pool(0, 0, 7);
    CHECK(contains(text_of_snapshot(0, 0, 7), "\"segment_pool_id\":[0,7]"));
    CHECK(contains(text_of_snapshot(0, 0, 0), "\"segment_pool_id\":[0,0]"));

    vramtape_free(inside, 5 << 20, 0, kStream);
    vramtape_free(outside, 5 << 20, 0, kOtherStream);
    vramtape_release_pool(0, 0, 7);
    vramtape_release_pool(0, 0, 7);
    CHECK(vramtape_pool_empty_cache(0, 0, 7) == VRAMTAPE_OK);
    CHECK(contains(text_of_snapshot(0, 0, 7), "{\"segments\":[]}"));
    vramtape_empty_cache();
    CHECK(vramtape_error_count() == 0);
}

static void settings(void) {
    char text[64];
    CHECK(vramtape_get_settings(NULL, 0) == 0);
    CHECK(vramtape_set_settings("max_split_size_mb:64") == VRAMTAPE_OK);
    CHECK(vramtape_get_settings(text, sizeof text) == 20);
    CHECK(strcmp(text, "max_split_size_mb:64") == 0);
    CHECK(vramtape_set_settings("expandable_segments:True") == VRAMTAPE_OK);
    void* ptr = vramtape_malloc(100 << 20, 1, kStream);
    CHECK(contains(text_of_snapshot(1, 0, 0), "\"is_expandable\":true"));
    vramtape_free(ptr, 100 << 20, 1, kStream);
    vramtape_empty_cache();
    CHECK(vramtape_set_settings("expandable_segments:False") == VRAMTAPE_OK);
    CHECK(vramtape_error_count() == 0);
}

static void* held = NULL;

static bool give_back(void* user) {
    ++*(int*)user;
    if (held == NULL) {
        return false;
    }
    vramtape_free(held, 12 << 20, 0, kStream);
    held = NULL;
    return true;
}

static void callbacks(void) {
    static int calls = 0;
    held = vramtape_malloc(12 << 20, 0, kStream);
    void* const expected = held;
    CHECK(vramtape_add_free_memory_callback(give_back, &calls) == VRAMTAPE_OK);
    // A miss: the callback frees what fits, and no segment is asked of the device.
    void* ptr = vramtape_malloc(12 << 20, 0, kStream);
    CHECK(calls == 1 && ptr == expected);
    vramtape_free(ptr, 12 << 20, 0, kStream);
    // A device that opens later has the callback too.
    ptr = vramtape_malloc(1, 2, kStream);
    CHECK(calls == 2 && ptr != NULL);
    vramtape_free(ptr, 1, 2, kStream);
    CHECK(vramtape_error_count() == 0);
}

int main(void) {
    versions();
    allocation();
    statistics();
    pools();
    peers();
    settings();
    callbacks();
    for (int device = 0; device < 3; ++device) {
        CHECK(vramtape_check(device) == VRAMTAPE_OK);
    }
    return 0;
}
