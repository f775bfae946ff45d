// Threads on two devices and several streams, and forks in the middle: nothing is lost, no child hangs.
// threads [FORKS]

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kThreads = 8, kRounds = 4000, kLive = 32 };

// A child that takes longer hangs on a lock.
enum { kChildSeconds = 30 };

static unsigned next(unsigned* state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void* storm(void* argument) {
    const unsigned number = (unsigned)(size_t)argument;
    unsigned random = number + 1;
    const int device = (int)(number % 2);
    void* const stream = (void*)(size_t)(0x100 * (1 + number % 3));
    void* const other = (void*)0x900;
    void* live[kLive] = {NULL};
    for (int round = 0; round < kRounds; ++round) {
        void** slot = &live[next(&random) % kLive];
        if (*slot != NULL) {
            if (next(&random) % 4 == 0) {
                vramtape_record_stream(*slot, other);
            }
            vramtape_free(*slot, 0, device, stream);
            *slot = NULL;
        } else {
            *slot = vramtape_malloc(1 + next(&random) % (8 << 20), device, stream);
            CHECK(*slot != NULL);
        }
        if (next(&random) % 1000 == 0) {
            vramtape_empty_cache();
        }
        if (next(&random) % 1000 == 0) {
            free(text_of_stats(device));
        }
    }
    for (int i = 0; i < kLive; ++i) {
        if (live[i] != NULL) {
            vramtape_free(live[i], 0, device, stream);
        }
    }
    return NULL;
}

static void child(void) {
    alarm(kChildSeconds);
    for (int device = 0; device < 3; ++device) {
        void* ptr = vramtape_malloc(4 << 20, device, NULL);
        CHECK(ptr != NULL);
        vramtape_free(ptr, 4 << 20, device, NULL);
        CHECK(vramtape_check(device) == VRAMTAPE_OK);
    }
    vramtape_empty_cache();
    _exit(0);
}

int main(int count, char** arguments) {
    const int forks = count > 1 ? atoi(arguments[1]) : 0;
    // Before any fork, so that the children are those of a process that uses its devices.
    for (int device = 0; device < 2; ++device) {
        vramtape_free(vramtape_malloc(1, device, NULL), 1, device, NULL);
    }
    pthread_t threads[kThreads];
    for (size_t i = 0; i < kThreads; ++i) {
        CHECK(pthread_create(&threads[i], NULL, storm, (void*)i) == 0);
    }
    for (int i = 0; i < forks; ++i) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            child();
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (size_t i = 0; i < kThreads; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(vramtape_error_count() == 0);
    for (int device = 0; device < 2; ++device) {
        CHECK(vramtape_check(device) == VRAMTAPE_OK);
        CHECK(contains(text_of_stats(device), "\"allocated_bytes\":{\"all\":{\"current\":0,"));
    }
    vramtape_empty_cache();
    for (int device = 0; device < 2; ++device) {
        CHECK(contains(text_of_stats(device), "\"reserved_bytes\":{\"all\":{\"current\":0,"));
    }
    return 0;
}
