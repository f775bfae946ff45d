"""Capacity, out of memory, expandable segments, host memory and copies."""

import common

common.load()

import ctypes
import os

import torch

CAPACITY = 256 * common.MIB  # test_simcuda.py sets VRAMTAPE_SIM_MEMORY to this
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")

assert torch.cuda.mem_get_info() == (CAPACITY, CAPACITY)
assert torch.cuda.get_device_properties(0).total_memory == CAPACITY


def megabytes(count):
    return torch.empty(count * common.MIB, dtype=torch.uint8, device="cuda")


kept = megabytes(200)
try:
    megabytes(100)
    raise AssertionError("100 MiB beside 200 MiB of 256 MiB")
except torch.OutOfMemoryError as error:
    assert "Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 256.00 MiB" in str(error), error
    assert "this process has 200.00 MiB memory in use" in str(error), error
assert torch.cuda.memory_stats()["num_ooms"] == 1
del kept
kept = megabytes(240)
assert torch.cuda.memory_stats()["num_alloc_retries"] == (1 if EXPANDABLE else 2)
common.check_accounts()
del kept
common.release_everything()
assert common.used_bytes() == 0, common.used_bytes()

grown = [megabytes(30) for _ in range(4)]
segments = torch.cuda.memory_snapshot()
assert len(segments) == (1 if EXPANDABLE else 4), segments
assert all(segment["is_expandable"] == EXPANDABLE for segment in segments)
del grown[1]
torch.cuda.empty_cache()
# An expandable segment gives back whole pages of 20 MiB: the hole from 30 to 60 MiB holds one.
assert common.used_bytes() == (100 if EXPANDABLE else 90) * common.MIB, common.used_bytes()
grown.clear()
common.release_everything()
assert common.used_bytes() == 0

host = torch.arange(1000).pin_memory()
assert host.is_pinned() and host.sum() == 499_500


def pointer_attribute(number, address):
    """The status of the driver, and an attribute of an address."""
    value = ctypes.c_uint64()
    status = DRIVER.cuPointerGetAttribute(ctypes.byref(value), number, ctypes.c_uint64(address))
    return status, value.value


# Triton asks for the device's pointer of all that kernels take, pinned memory of the host too.
DRIVER = ctypes.CDLL("libcuda.so.1")
MEMORY_TYPE, DEVICE_POINTER, INVALID_VALUE = 2, 3, 1
inside = host.data_ptr() + 8
assert pointer_attribute(MEMORY_TYPE, inside) == (0, 1) and pointer_attribute(DEVICE_POINTER, inside) == (0, inside)
assert pointer_attribute(MEMORY_TYPE, megabytes(1).data_ptr()) == (0, 2)
assert pointer_attribute(MEMORY_TYPE, torch.zeros(1).data_ptr())[0] == INVALID_VALUE
device = host.to("cuda", non_blocking=True)
assert device.cpu().sum() == 0, "device memory has no content"
host.copy_(device, non_blocking=True)
torch.cuda.synchronize()
assert host.sum() == 0
assert torch.cuda.cudart().cudaHostRegister(torch.zeros(4096).data_ptr(), 4096, 0) == 0
rows = torch.ones(8, 16)[:, :4]
rows.copy_(torch.empty(8, 16, device="cuda")[:, :4])
assert rows.sum() == 0

torch.cuda.set_per_process_memory_fraction(0.25)
try:
    megabytes(100)
    raise AssertionError("100 MiB of an allowed 64 MiB")
except torch.OutOfMemoryError:
    pass
