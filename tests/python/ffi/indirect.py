"""A library between PyTorch and vramtape: that the hooks cannot be set is said once, with what to do."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness  # noqa: E402

SOURCE = """
#include <stddef.h>
void* vramtape_malloc(size_t, int, void*);
void vramtape_free(void*, size_t, int, void*);
void* between_malloc(size_t size, int device, void* stream) { return vramtape_malloc(size, device, stream); }
void between_free(void* ptr, size_t size, int device, void* stream) { vramtape_free(ptr, size, device, stream); }
"""

if sys.argv[1:] != ["child"]:
    with open("between.c", "w") as file:
        file.write(SOURCE)
    folder, name = os.path.split(harness.LIBRARY)
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-shared", "-fPIC", "between.c", "-o", "between.so", harness.LIBRARY, f"-Wl,-rpath,{folder}"]
    subprocess.run(command, check=True)
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stderr
    assert child.stderr.count("does not call vramtape_malloc itself") == 1, child.stderr
    assert "set_record_stream_fn" in child.stderr, child.stderr
    sys.exit(0)

harness.load_simcuda()

import torch  # noqa: E402

allocator = torch.cuda.memory.CUDAPluggableAllocator(os.path.abspath("between.so"), "between_malloc", "between_free")
torch.cuda.memory.change_current_allocator(allocator)
for _ in range(3):
    torch.empty(1000, device="cuda")
