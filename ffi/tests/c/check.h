// Shared by the C tests: a check that prints where it failed.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramtape.h"

#define CHECK(what)                                                                                                 \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            const char* error = vramtape_last_error();                                                              \
            fprintf(                                                                                                \
                stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #what, error != NULL ? error : "none"); \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

// A call that must be refused: recorded as this thread's last error, with this text in it.
#define REFUSED(call, text)                                 \
    do {                                                    \
        const uint64_t errors = vramtape_error_count();     \
        vramtape_clear_error();                             \
        call;                                               \
        CHECK(vramtape_error_count() == errors + 1);        \
        CHECK(vramtape_last_error() != NULL);               \
        CHECK(strstr(vramtape_last_error(), text) != NULL); \
        vramtape_clear_error();                             \
    } while (0)

// Statistics, in a buffer that the caller frees. Other threads may make them longer between two calls.
static inline char* text_of_stats(int device) {
    int64_t length = vramtape_stats(device, NULL, 0);
    CHECK(length > 0);
    for (;;) {
        const size_t capacity = (size_t)length + 1;
        char* text = malloc(capacity);
        length = vramtape_stats(device, text, capacity);
        CHECK(length > 0);
        if ((size_t)length < capacity) {
            CHECK(strlen(text) == (size_t)length);
            return text;
        }
        CHECK(text[0] == '\0');
        free(text);
    }
}

// The same of a pool's segments, while no other thread allocates.
static inline char* text_of_snapshot(int device, uint64_t pool_0, uint64_t pool_1) {
    const int64_t length = vramtape_snapshot(device, pool_0, pool_1, NULL, 0);
    CHECK(length > 0);
    char* text = malloc((size_t)length + 1);
    CHECK(vramtape_snapshot(device, pool_0, pool_1, text, (size_t)length + 1) == length);
    CHECK(strlen(text) == (size_t)length);
    return text;
}

// Whether a text contains another; frees the first.
static inline bool contains(char* text, const char* part) {
    const bool found = strstr(text, part) != NULL;
    if (!found) {
        fprintf(stderr, "not found: %s\nin: %s\n", part, text);
    }
    free(text);
    return found;
}

// A std::function<bool(cudaStream_t)> that takes one stream, and its end (filter.cpp).
void* filter_new(void* stream);
void filter_delete(void* filter);
