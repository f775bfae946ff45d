// Something to measure: holds memory on two devices, says so, and ends when its input does. With an
// argument it forks first; the child says its name, allocates, and stays until it is killed.

#include <unistd.h>

#include "check.h"

static void stay_as_child(void) {
    vramtape_free(vramtape_malloc(2000, 0, NULL), 2000, 0, NULL);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    alarm(60);
    pause();
}

int main(int count, char** arguments) {
    (void)arguments;
    void *small = vramtape_malloc(1000, 0, NULL), *large = vramtape_malloc(30 << 20, 0, NULL);
    void* other = vramtape_malloc(1, 1, NULL);
    CHECK(small != NULL && large != NULL && other != NULL);
    vramtape_free(vramtape_malloc(2000, 0, NULL), 2000, 0, NULL);
    if (count > 1 && fork() == 0) {
        stay_as_child();
    }
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    vramtape_free(large, 30 << 20, 0, NULL);
    return 0;
}
