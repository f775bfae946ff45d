"""A library between PyTorch and vramtape: that the hooks cannot be set is said once, with what to do."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

SOURCE = """
#include <stddef.h>
void* vramtape_malloc(size_t, int, void*);
void vramtape_free(void*, size_t, int, void*);
void* between_malloc(size_t size, int device, void* stream) { return vramtape_malloc(size, device, stream); }
void between_free(void* ptr, size_t size, int device, void* stream) { vramtape_free(ptr, size, device, stream); }
"""

if sys.argv[1:2] != ["child"]:
    with tempfile.TemporaryDirectory() as folder:
        source, between = os.path.join(folder, "between.c"), os.path.join(folder, "between.so")
        with open(source, "w") as file:
            file.write(SOURCE)
        compiler, beside = os.environ.get("CC", "cc"), os.path.dirname(harness.LIBRARY)
        command = [compiler, "-shared", "-fPIC", source, "-o", between, harness.LIBRARY, f"-Wl,-rpath,{beside}"]
        subprocess.run(command, check=True)
        line = [sys.executable, __file__, "child", between]
        child = subprocess.run(line, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stderr
    assert child.stderr.count("does not call vramtape_malloc itself") == 1, child.stderr
    assert "set_record_stream_fn" in child.stderr, child.stderr
    sys.exit(0)

harness.load_simcuda()

import torch

allocator = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[2], "between_malloc", "between_free")
torch.cuda.memory.change_current_allocator(allocator)
for _ in range(3):
    torch.empty(1000, device="cuda")
