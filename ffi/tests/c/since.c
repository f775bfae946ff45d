// Parts of the tape: since PART saves what two devices did since a moment, and says what a block holds.

#include "check.h"

static void* const kStream = (void*)0x10;

int main(int count, char** arguments) {
    CHECK(count == 2);
    const char* const part = arguments[1];
    uint64_t since[2] = {0, 0};
    CHECK(vramtape_wants_marks());
    CHECK(vramtape_ring_position(0) == 0);
    REFUSED(CHECK(vramtape_tape_save_since(since, 2, part) == -1), "nothing to save");

    void* before = vramtape_malloc(3 << 20, 0, kStream);
    void* passing = vramtape_malloc(4 << 20, 0, kStream);
    vramtape_free(passing, 4 << 20, 0, kStream);
    since[0] = vramtape_ring_position(0);
    CHECK(since[0] > 0);
    REFUSED(CHECK(vramtape_ring_position(999) == 0), "not a device");

    void* after = vramtape_malloc(1000, 0, kStream);
    const uint64_t addrs[] = {(uint64_t)before, (uint64_t)after, (uint64_t)after + 1, (uint64_t)passing};
    CHECK(vramtape_categorize(0, VRAMTAPE_CATEGORY_PARAMETER, addrs, 4) == 2);
    CHECK(vramtape_categorize(0, VRAMTAPE_CATEGORY_GRADIENT, addrs + 1, 1) == 1);
    CHECK(vramtape_categorize(0, VRAMTAPE_CATEGORY_OPTIMIZER_STATE, NULL, 0) == 0);
    CHECK(vramtape_categorize(1, VRAMTAPE_CATEGORY_PARAMETER, addrs, 4) == 0);
    REFUSED(CHECK(vramtape_categorize(0, 3, addrs, 4) == -1), "3 is no category");
    REFUSED(CHECK(vramtape_categorize(0, 0, NULL, 4) == -1), "addrs is NULL");
    // A device that opens later is in the part from its first record on.
    void* other = vramtape_malloc(1, 1, kStream);
    CHECK(vramtape_tape_save_since(since, 2, part) == 0);
    REFUSED(CHECK(vramtape_tape_save_since(since, 2, NULL) == -1), "path is NULL");
    REFUSED(CHECK(vramtape_tape_save_since(NULL, 2, part) == -1), "positions is NULL");

    vramtape_free(other, 1, 1, kStream);
    vramtape_free(after, 1000, 0, kStream);
    vramtape_free(before, 3 << 20, 0, kStream);
    return 0;
}
