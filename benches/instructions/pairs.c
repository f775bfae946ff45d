// Allocates and frees: pairs SIZE_BYTES COUNT. What it costs is counted from outside (`cargo xtask bench
// --instructions`).

#include <stdio.h>
#include <stdlib.h>

#include "vramtape.h"

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: pairs SIZE_BYTES COUNT\n");
        return 2;
    }
    const size_t size_bytes = strtoull(argv[1], NULL, 10);
    const long count = strtol(argv[2], NULL, 10);
    void* const first = vramtape_malloc(size_bytes, 0, NULL);
    vramtape_free(first, size_bytes, 0, NULL);
    for (long i = 0; i < count; ++i) {
        void* const ptr = vramtape_malloc(size_bytes, 0, NULL);
        if (ptr == NULL || ptr != first) {
            fprintf(stderr, "pairs: the cached block did not serve\n");
            return 1;
        }
        vramtape_free(ptr, size_bytes, 0, NULL);
    }
    return vramtape_error_count() == 0 ? 0 : 1;
}
