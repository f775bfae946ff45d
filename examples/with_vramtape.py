"""Runs an unmodified PyTorch script through vramtape: with_vramtape.py SCRIPT [ARGUMENTS...]

Needs `cargo build --release -p ffi`. Where there is no GPU, the simulated driver takes its place (`cargo xtask demo`
builds it, simcuda/README.md says how to): every allocation is the real one, kernels do nothing, and so the numbers a
script prints mean nothing.
"""

import ctypes
import os
import runpy
import sys

BUILT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release")
LIBRARY = os.environ.get("VRAMTAPE_LIBRARY", os.path.join(BUILT, "libvramtape.so"))
SIMCUDA = os.environ.get("VRAMTAPE_SIMCUDA", os.path.join(BUILT, "simcuda"))


def has_gpu():
    """Whether the machine's own CUDA driver is there and sees a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_LOCAL)
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


if len(sys.argv) < 2:
    sys.exit(__doc__)
if not has_gpu():
    print("no GPU: on the simulated driver (losses are meaningless, allocations are real)", flush=True)
    for name in ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"):
        ctypes.CDLL(os.path.join(SIMCUDA, name), mode=ctypes.RTLD_GLOBAL)

import torch  # noqa: E402  The simulated driver has to come first.

allocator = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "vramtape_malloc", "vramtape_free")
torch.cuda.memory.change_current_allocator(allocator)

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
