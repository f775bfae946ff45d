// Tape control: tape TAPE SAVED writes one tape between two calls, and saves the ring as another.

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void* const kStream = (void*)0x10;

static bool is_child = false;

// LeakSanitizer asks. In a child, what the parent's other threads held is out of reach, not leaked.
int __lsan_is_turned_off(void) {
    return is_child;
}

static void allocate_and_free(void) {
    void* ptr = vramtape_malloc(5000, 0, kStream);
    CHECK(ptr != NULL);
    vramtape_free(ptr, 5000, 0, kStream);
}

static void* mark(void* unused) {
    (void)unused;
    CHECK(vramtape_mark(VRAMTAPE_MARK_PHASE, "in another thread") == VRAMTAPE_OK);
    return NULL;
}

static void mark_in_another_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, mark, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

// A child's allocations are not on its parent's tape, and it has no tape of its own.
static void fork_and_allocate(void) {
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_child = true;
        alarm(30);
        allocate_and_free();
        CHECK(vramtape_mark(VRAMTAPE_MARK_INSTANT, "the child was here") == VRAMTAPE_OK);
        REFUSED(CHECK(vramtape_tape_stop() == VRAMTAPE_ERROR), "no tape is being written");
        REFUSED(CHECK(vramtape_tape_start("child.vtape") == VRAMTAPE_ERROR), "forked");
        exit(0);  // Runs the handlers of the end, too.
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int count, char** arguments) {
    CHECK(count == 3);
    const char *const tape = arguments[1], *const saved = arguments[2];
    void* before = vramtape_malloc(3 << 20, 0, kStream);
    REFUSED(CHECK(vramtape_tape_start(NULL) == VRAMTAPE_ERROR), "path is NULL");
    REFUSED(CHECK(vramtape_tape_start("{host}.vtape") == VRAMTAPE_ERROR), "{rank}, {pid} or {device}");
    REFUSED(CHECK(vramtape_tape_start("/no/such/folder/x.vtape") == VRAMTAPE_ERROR), "/no/such/folder");
    REFUSED(CHECK(vramtape_tape_stop() == VRAMTAPE_ERROR), "no tape is being written");

    CHECK(vramtape_tape_start(tape) == VRAMTAPE_OK);
    REFUSED(CHECK(vramtape_tape_start(saved) == VRAMTAPE_ERROR), tape);
    CHECK(vramtape_mark(VRAMTAPE_MARK_STEP, "step 1") == VRAMTAPE_OK);
    allocate_and_free();
    mark_in_another_thread();
    CHECK(vramtape_flush() == VRAMTAPE_OK);
    fork_and_allocate();
    // A device that opens later is on the tape, too.
    void* other = vramtape_malloc(1, 1, kStream);
    vramtape_free(other, 1, 1, kStream);
    CHECK(vramtape_tape_stop() == VRAMTAPE_OK);
    CHECK(vramtape_flush() == VRAMTAPE_OK);

    allocate_and_free();
    CHECK(vramtape_tape_save(0, saved) == VRAMTAPE_OK);
    REFUSED(CHECK(vramtape_tape_save(7, saved) == VRAMTAPE_ERROR), "device 7 has no ring");
    REFUSED(CHECK(vramtape_tape_save(0, "/no/such/folder/x.vtape") == VRAMTAPE_ERROR), "/no/such/folder");
    REFUSED(CHECK(vramtape_mark(9, "x") == VRAMTAPE_ERROR), "9 is no kind of mark");
    REFUSED(CHECK(vramtape_mark(0, NULL) == VRAMTAPE_ERROR), "name is NULL");
    vramtape_free(before, 3 << 20, 0, kStream);
    return 0;
}
