"""A program with a tape and a ring, without PyTorch, for the verbs that test_schema.py calls.

It records steps that keep a block each, categories, modules, pinned host memory and an out of memory, prints a line,
and goes on until its standard input ends; with `host` it ends by an out of memory of the host. Outside PyTorch
`vramtape_malloc` returns NULL if memory is out.
"""

import ctypes
import os
import select
import sys

for library in ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"):
    ctypes.CDLL(os.path.join(os.environ["VRAMTAPE_SIMCUDA"], library), mode=ctypes.RTLD_GLOBAL)

import vramtape
from vramtape import _atexit, _runtime, marks

MIB = 1 << 20
# As the library writes a call of the CUDA runtime, with PyTorch's statistics as `vramtape._host_memory` writes them.
HOST_MEMORY = (
    "pinned host memory: reserved_bytes=4096 reserved_bytes_peak=8192 blocks=1 active_bytes=4096 "
    "active_bytes_peak=4096 active_blocks=1 per_block=2 pinned_bytes=4096 addr=65536"
)
PARAMETER = 0  # VRAMTAPE_CATEGORY_PARAMETER of vramtape.h.


def main():
    library = _runtime.load()
    malloc = library.vramtape_malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    free = library.vramtape_free
    free.restype, free.argtypes = None, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)

    def forward():
        return malloc(4 * MIB, 0, None)

    def append():
        return malloc(2 * MIB, 0, None)

    library.vramtape_init(1)
    _atexit.watch_exception()
    library.vramtape_describe(b'{"cuda_version": "13.0"}')
    parameters = malloc(64 * MIB, 0, None)
    library.vramtape_categorize(0, PARAMETER, (ctypes.c_uint64 * 1)(parameters), 1)
    for _ in range(40):
        vramtape.step()
        marks.record(marks.PHASE, "forward")
        marks.record(marks.MODULE_BEGIN, "layers.0")
        activations = forward()
        marks.record(marks.MODULE_END, "layers.0")
        append()
        free(activations, 0, 0, None)
    marks.record(marks.INSTANT, HOST_MEMORY)
    if sys.argv[1:] == ["host"]:
        raise RuntimeError("CUDA error: out of memory; x = torch.empty(1 << 30, pin_memory=True)")
    assert malloc(1 << 50, 0, None) is None
    print("recorded", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        free(forward(), 0, 0, None)


main()
