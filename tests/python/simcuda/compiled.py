"""torch.compile: Triton builds its launcher against the driver, compiles kernels for the GPU, and launches them."""

import ctypes
import os
import tempfile

import common

FOLDER = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = os.path.join(FOLDER.name, "triton")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
# As `vramtape run --sim` sets them (python/vramtape/_runtime.py).
os.environ["TRITON_LIBCUDA_PATH"] = common.harness.SIMCUDA
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

driver = common.load()[0]

import torch
from torch._inductor import metrics

UNSUPPORTED_LIMIT, INVALID_VALUE = 215, 1


def limit(number):
    value = ctypes.c_size_t()
    assert driver.cuCtxGetLimit(ctypes.byref(value), number) == 0
    return value.value


torch.cuda.init()
CONTEXT_BYTES = common.used_bytes()
assert [limit(number) for number in range(7)] == [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0]
for number, value, answer in [
    (1, 16 << 20, 0),
    (0, 512 << 10, 0),
    (0, 1 << 20, INVALID_VALUE),
    (5, 129, INVALID_VALUE),
    (6, 1, UNSUPPORTED_LIMIT),
    (10, 1, UNSUPPORTED_LIMIT),
    (-1, 1, UNSUPPORTED_LIMIT),
]:
    assert driver.cuCtxSetLimit(number, ctypes.c_size_t(value)) == answer, (number, value)
assert limit(1) == 16 << 20 and limit(0) == 512 << 10


def train(mode):
    """The bytes that are allocated after each of four steps of training, and the kernels that were made for it."""
    torch.compiler.reset()
    metrics.reset()
    layers = torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    forward = torch.compile(model, mode=mode)
    allocated = []
    for _ in range(4):
        forward(torch.ones(32, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        allocated.append(torch.cuda.memory_allocated())
    return allocated, metrics.generated_kernel_count


allocated, kernels = train(None)
assert kernels > 0 and allocated[1] == allocated[2] == allocated[3], (kernels, allocated)
compiled = [name for _, _, names in os.walk(os.environ["TRITON_CACHE_DIR"]) for name in names]
assert sum(name.endswith(".cubin") for name in compiled) >= kernels, (kernels, compiled)
assert any(name.startswith("cuda_utils") for name in compiled), "Triton linked its launcher with the driver"
assert common.used_bytes() == CONTEXT_BYTES + torch.cuda.memory_reserved()

allocated, kernels = train("reduce-overhead")
assert kernels > 0 and allocated[2] == allocated[3], (kernels, allocated)
pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
assert len(pools) > 1, "the captured graphs have a pool of their own"
text = ctypes.create_string_buffer(1 << 16)
driver.simcuda_not_simulated(text, len(text))
assert text.value == b"", text.value
