// A caller's mistake is a recorded error that names it; nothing crashes and nothing changes.

#include <math.h>
#include <pthread.h>

#include "check.h"

static void* const kStream = (void*)0x10;

static void frees(void) {
    REFUSED(vramtape_free(NULL, 1, 0, kStream), "NULL");
    REFUSED(vramtape_free((void*)0x1000, 1, 0, kStream), "device 0 never allocated");
    void* ptr = vramtape_malloc(1 << 20, 0, kStream);
    void* other = vramtape_malloc(1 << 20, 1, kStream);
    REFUSED(vramtape_free((void*)0x1000, 1, 0, kStream), "0x1000");
    REFUSED(vramtape_free((char*)ptr + 512, 1, 0, kStream), "unknown pointer");
    REFUSED(vramtape_free(ptr, 1 << 20, 1, kStream), "device 0");
    REFUSED(vramtape_free(ptr, 1 << 20, 5, kStream), "device 5 never allocated");
    REFUSED(vramtape_free(ptr, 1 << 20, -1, kStream), "device -1 is not a device");
    REFUSED(vramtape_free(ptr, 1 << 20, 128, kStream), "device 128 is not a device");
    vramtape_free(ptr, 1 << 20, 0, kStream);
    REFUSED(vramtape_free(ptr, 1 << 20, 0, kStream), "double free");
    vramtape_free(other, 1 << 20, 1, kStream);
}

static void allocations(void) {
    void* ptr = &ptr;
    REFUSED(ptr = vramtape_malloc(1, -1, kStream), "device -1 is not a device");
    CHECK(ptr == NULL);
    REFUSED(ptr = vramtape_malloc(SIZE_MAX, 0, kStream), "more than 1EB");
    CHECK(ptr == NULL);
    REFUSED(
        ptr = vramtape_malloc((size_t)1 << 40, 0, kStream),
        "CUDA out of memory. Tried to allocate 1024.00 GiB. GPU 0 has a total capacity of 80.00 GiB");
    CHECK(ptr == NULL);
    CHECK(contains(text_of_stats(0), "\"num_ooms\":1"));
    ptr = vramtape_malloc(1 << 20, 0, kStream);
    CHECK(ptr != NULL);
    vramtape_free(ptr, 1 << 20, 0, kStream);
}

static void hooks(void) {
    size_t size = 77;
    REFUSED(CHECK(vramtape_base_alloc((void*)0x1000, &size) == NULL && size == 77), "0x1000");
    REFUSED(CHECK(vramtape_base_alloc(NULL, &size) == NULL && size == 77), "NULL");
    REFUSED(vramtape_record_stream((void*)0x1000, kStream), "0x1000");
    REFUSED(vramtape_record_stream(NULL, kStream), "NULL");
    REFUSED(vramtape_set_memory_fraction(1.5, 0), "invalid fraction:1.5");
    REFUSED(vramtape_set_memory_fraction(NAN, 0), "invalid fraction");
    REFUSED(vramtape_set_memory_fraction(0.5, 1000), "device 1000 is not a device");
    REFUSED(CHECK(vramtape_get_memory_fraction(-5) == -1.0), "device -5 is not a device");
}

static void pools(void) {
    void* filter = filter_new(kStream);
    REFUSED(vramtape_begin_allocate_to_pool(0, 1, 0, NULL), "filter is NULL");
    vramtape_begin_allocate_to_pool(0, 1, 0, filter);
    REFUSED(vramtape_begin_allocate_to_pool(0, 1, 0, filter), "already recording");
    vramtape_end_allocate_to_pool(0, 1, 0);
    REFUSED(vramtape_end_allocate_to_pool(0, 1, 0), "not currently recording");
    vramtape_release_pool(0, 1, 0);
    filter_delete(filter);
    REFUSED(vramtape_release_pool(0, 9, 9), "(9, 9)");
    REFUSED(CHECK(vramtape_pool_use_count(0, 9, 9) == -1), "(9, 9)");
    REFUSED(CHECK(vramtape_pool_create(-1, 9, 9) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_pool_empty_cache(-1, 9, 9) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_pool_set_no_split(-1, 9, 9) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_pool_set_use_on_oom(-1, 9, 9, true) == VRAMTAPE_ERROR), "device -1");
}

static void texts(void) {
    char buffer[32];
    REFUSED(CHECK(vramtape_set_settings(NULL) == VRAMTAPE_ERROR), "settings is NULL");
    REFUSED(CHECK(vramtape_set_settings("max_split_size_mb:3") == VRAMTAPE_ERROR), "must be >= 20");
    REFUSED(CHECK(vramtape_set_settings("nonsense:1") == VRAMTAPE_ERROR), "nonsense");
    REFUSED(CHECK(vramtape_set_settings("\xff\xfe") == VRAMTAPE_ERROR), "not UTF-8");
    CHECK(vramtape_get_settings(buffer, sizeof buffer) == 0);
    REFUSED(CHECK(vramtape_stats(500, buffer, sizeof buffer) == -1), "device 500");
    REFUSED(CHECK(vramtape_snapshot(-1, 0, 0, buffer, sizeof buffer) == -1), "device -1");
    REFUSED(CHECK(vramtape_reset_peak_stats(-1) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_reset_accumulated_stats(-1) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_check(-1) == VRAMTAPE_ERROR), "device -1");
    REFUSED(CHECK(vramtape_add_free_memory_callback(NULL, NULL) == VRAMTAPE_ERROR), "is NULL");
}

static void* has_no_error(void* unused) {
    (void)unused;
    return (void*)vramtape_last_error();
}

static void errors_are_of_their_thread(void) {
    vramtape_free(NULL, 0, 0, NULL);
    CHECK(vramtape_last_error() != NULL);
    pthread_t thread;
    void* seen = NULL;
    CHECK(pthread_create(&thread, NULL, has_no_error, NULL) == 0);
    CHECK(pthread_join(thread, &seen) == 0);
    CHECK(seen == NULL);
    vramtape_clear_error();
    CHECK(vramtape_last_error() == NULL);
}

static void peers(void) {
    REFUSED(CHECK(vramtape_enable_peer_access(0, 0) == VRAMTAPE_ERROR), "no peer of 0");
    REFUSED(CHECK(vramtape_enable_peer_access(0, -1) == VRAMTAPE_ERROR), "device -1 is no peer");
    REFUSED(CHECK(vramtape_enable_peer_access(-1, 0) == VRAMTAPE_ERROR), "device -1");
}

int main(void) {
    frees();
    allocations();
    hooks();
    pools();
    texts();
    errors_are_of_their_thread();
    peers();
    for (int device = 0; device < 2; ++device) {
        CHECK(vramtape_check(device) == VRAMTAPE_OK);
    }
    return 0;
}
