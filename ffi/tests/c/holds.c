// Something to observe: holds memory on a device, prints a line, and ends when its input does.

#include <unistd.h>

#include "check.h"

int main(void) {
    CHECK(vramtape_malloc(1000, 0, NULL) != NULL && vramtape_malloc(30 << 20, 0, NULL) != NULL);
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
