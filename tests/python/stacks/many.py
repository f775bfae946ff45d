"""100,000 distinct stacks of depth 20 through the C ABI, which share little: `many.py LIBRARY [TAPE]`.

Prints the bytes that the process holds afterwards, and saves the ring as a tape.
"""

import ctypes
import random
import sys

COUNT, DEPTH, BRANCHES = 100_000, 20, 10
library = ctypes.CDLL(sys.argv[1])
library.vramtape_malloc.restype = ctypes.c_void_p
library.vramtape_last_error.restype = ctypes.c_char_p
malloc, free = library.vramtape_malloc, library.vramtape_free
functions = []


def leaf():
    pointer = malloc(ctypes.c_size_t(512), 0, None)
    assert pointer, library.vramtape_last_error()
    free(ctypes.c_void_p(pointer), ctypes.c_size_t(512), 0, None)


for branch in range(BRANCHES):
    source = f"def branch_{branch}(path):\n    return functions[path.pop()](path) if path else leaf()"
    space = {"functions": functions, "leaf": leaf}
    exec(compile(source, f"<branch {branch}>", "exec"), space)
    functions.append(space[f"branch_{branch}"])

leaf()
seed = 20
choose = random.Random(seed)
for _ in range(COUNT):
    path = [choose.randrange(BRANCHES) for _ in range(DEPTH - 2)]
    functions[path.pop()](path)
assert library.vramtape_error_count() == 0, library.vramtape_last_error()

with open("/proc/self/status") as file:
    resident = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))
print(resident)
if len(sys.argv) > 2:
    assert library.vramtape_tape_save(0, sys.argv[2].encode()) == 0, library.vramtape_last_error()
