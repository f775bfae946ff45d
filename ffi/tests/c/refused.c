// Settings that are refused: the first call is an error that contains the argument.

#include "check.h"

int main(int count, char** arguments) {
    CHECK(count == 2);
    REFUSED(CHECK(vramtape_malloc(512, 0, NULL) == NULL), arguments[1]);
    return 0;
}
