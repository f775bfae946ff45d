"""Ends the interpreter while daemon threads are about to take its lock inside the library, which is called as C.

Arguments: the library, what takes the lock (`stacks`, or an `observer` of out of memory, or a free-memory `callback`),
the seconds that the main thread waits before it ends.
"""

import ctypes
import os
import sys
import threading
import time

THREADS = 8
TOO_MUCH = 1 << 50

library, kind, wait_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
os.environ["VRAMTAPE_CONF"] = "device:sim,ring_events:4096" + (",stacks:all" if kind == "stacks" else "")
lib = ctypes.CDLL(library)
lib.vramtape_malloc.restype = ctypes.c_void_p
lib.vramtape_malloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
lib.vramtape_free.restype = None
lib.vramtape_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)

Observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_uint64] * 3)
Callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
observer, callback = Observer(lambda *_: None), Callback(lambda _: False)
for function in (observer, callback):  # Threads call them until the process is gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
if kind == "observer":
    lib.vramtape_add_oom_observer(observer, None)
if kind == "callback":
    lib.vramtape_add_free_memory_callback(callback, None)
# Opens the device without asking for a stack.
assert lib.vramtape_pool_create(0, ctypes.c_uint64(1), ctypes.c_uint64(1)) == 0


def pair(number):
    """An allocation and its free in a function of its own, whose stack is new."""
    size = 4096 if kind == "stacks" else TOO_MUCH
    source = f"def pair(lib):\n    lib.vramtape_free(lib.vramtape_malloc({size}, 0, None), {size}, 0, None)\n"
    space = {}
    exec(compile(source, f"pair_{number}.py", "exec"), space)
    space["pair"](lib)


def loop(first):
    go.wait()
    for number in range(first, first + 1_000_000):
        pair(number)


go = threading.Event()
for one in range(THREADS):
    threading.Thread(target=loop, args=(one * 1_000_000,), daemon=True).start()
# A thread keeps the interpreter until it waits: the main thread ends while the others ask for it.
sys.setswitchinterval(100)
go.set()
time.sleep(wait_s)
