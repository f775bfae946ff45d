// The memory history: what is kept of what happens, how much of it, and that it ends.

#include "check.h"

static void* const kStream = (void*)0x10;

struct Text {
    char bytes[1 << 16];
    int calls;
};

static void keep(void* user, const char* json, size_t length) {
    struct Text* text = user;
    CHECK(length < sizeof text->bytes);
    memcpy(text->bytes, json, length);
    text->bytes[length] = 0;
    text->calls++;
}

// The snapshot's text, of one pool or of all.
static const char* snapshot(uint64_t pool_1, bool with_traces) {
    static struct Text text;
    text.calls = 0;
    CHECK(vramtape_take_snapshot(0, pool_1, with_traces, keep, &text) == VRAMTAPE_OK);
    CHECK(text.calls == 1);
    return text.bytes;
}

static bool has(const char* text, const char* what) {
    return strstr(text, what) != NULL;
}

static int count(const char* text, const char* what) {
    int found = 0;
    for (const char* at = strstr(text, what); at; at = strstr(at + 1, what)) found++;
    return found;
}

static void what_is_kept(void) {
    CHECK(!vramtape_history_is_running());
    CHECK(vramtape_history_start(VRAMTAPE_CONTEXT_NEVER, false, 100, 0, false) == VRAMTAPE_OK);
    CHECK(vramtape_history_is_running());
    CHECK(vramtape_set_memory_metadata("layer 3") == VRAMTAPE_OK);
    void* block = vramtape_malloc(700, 0, kStream);
    CHECK(vramtape_annotate_memory(block, "weights") == VRAMTAPE_OK);
    REFUSED(vramtape_annotate_memory(kStream, "nothing"), "unknown pointer");
    vramtape_free(block, 700, 0, kStream);
    CHECK(vramtape_set_memory_metadata("") == VRAMTAPE_OK);

    const char* text = snapshot(0, true);
    // A segment, a block, a word about it, and both halves of its free.
    CHECK(has(text, ",2097152,16,0,0,") && has(text, ",700,16,0,0,"));
    CHECK(count(text, "\"layer 3\"") == 4 && count(text, "\"weights\"") == 1);
    // The entry of a snapshot is in the next one, with its pool.
    CHECK(count(text, "[7,0,") == 0);
    CHECK(count(snapshot(5, true), "[7,0,") == 1);
    CHECK(has(snapshot(0, true), "[7,0,0,0,0,5,"));
    CHECK(has(snapshot(0, false), "\"device_traces\":[]"));
}

static void how_much(void) {
    CHECK(vramtape_history_start(VRAMTAPE_CONTEXT_NEVER, false, 3, 1 << 7, true) == VRAMTAPE_OK);
    for (int i = 0; i < 10; i++) vramtape_free(vramtape_malloc(900, 0, kStream), 900, 0, kStream);
    CHECK(count(snapshot(0, true), ",900,16,0,0,") == 3);
    // Snapshots are skipped, so the same three are there.
    CHECK(count(snapshot(0, true), ",900,16,0,0,") == 3);
    // Zero entries are one.
    CHECK(vramtape_history_start(VRAMTAPE_CONTEXT_NEVER, false, 0, 1 << 7, true) == VRAMTAPE_OK);
    vramtape_free(vramtape_malloc(900, 0, kStream), 900, 0, kStream);
    CHECK(count(snapshot(0, true), ",900,16,0,0,") == 1);
}

static void its_end(void) {
    CHECK(vramtape_history_stop() == VRAMTAPE_OK);
    CHECK(!vramtape_history_is_running());
    vramtape_free(vramtape_malloc(900, 0, kStream), 900, 0, kStream);
    CHECK(has(snapshot(0, true), "\"device_traces\":[[]]"));
    CHECK(vramtape_history_stop() == VRAMTAPE_OK);
}

static void misuse(void) {
    REFUSED(vramtape_history_start(4, false, 10, 0, false), "4 is no context");
    REFUSED(vramtape_take_snapshot(0, 0, true, NULL, NULL), "NULL");
    REFUSED(vramtape_set_memory_metadata(NULL), "the metadata is NULL");
    REFUSED(vramtape_annotate_memory(NULL, "nothing"), "NULL");
    REFUSED(vramtape_pool_create_with(0, 0, 7, NULL, NULL), "NULL");
}

int main(void) {
    misuse();
    what_is_kept();
    how_much();
    its_end();
    return 0;
}
