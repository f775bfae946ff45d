// A tape on a disk that becomes full: it ends, with one warning, and the program does not notice.

#include <sys/resource.h>

#include "check.h"

static void allocate_and_free(int times) {
    for (int i = 0; i < times; i++) {
        void* ptr = vramtape_malloc(512 + (size_t)(i * 7919 % 100000), 0, NULL);
        CHECK(ptr != NULL);
        vramtape_free(ptr, 512, 0, NULL);
    }
}

int main(void) {
    // The ring is made before files may not grow any more.
    allocate_and_free(1);
    const struct rlimit limit = {200000, 200000};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    int rounds = 0;
    while (vramtape_flush() == VRAMTAPE_OK) {
        CHECK(rounds++ < 10000);
        allocate_and_free(10000);
    }
    vramtape_clear_error();
    allocate_and_free(1000);
    CHECK(vramtape_error_count() == 1);
    return 0;
}
