"""The driver without torch: found under both names, functions looked up by name, misuse refused."""

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

import common

import harness

common.load()

MIB = common.MIB
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_FOUND = 0, 1, 2, 500

# A program that asks for either name gets the loaded stand-in: NULL functions would mean another library.
cuda = ctypes.CDLL("libcuda.so.1")
for name in harness.SIMCUDA_NAMES:
    cu_init = ctypes.cast(ctypes.CDLL(name).cuInit, c_void_p).value
    assert cu_init == ctypes.cast(cuda.cuInit, c_void_p).value, name
assert cuda.cuInit(0) == SUCCESS

context, device = c_void_p(), c_int()
assert cuda.cuDeviceGet(byref(device), 0) == SUCCESS
assert cuda.cuDeviceGet(byref(device), 99) == 101
assert cuda.cuCtxGetCurrent(byref(context)) == SUCCESS and not context.value
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == SUCCESS
assert cuda.cuCtxSetCurrent(context) == SUCCESS
assert cuda.cuCtxSetCurrent(c_void_p(0x1234)) == 201


def lookup(name):
    function, found = c_void_p(), c_int(-1)
    assert cuda.cuGetProcAddress_v2(c_char_p(name), byref(function), 13000, c_uint64(0), byref(found)) == SUCCESS
    return function.value, found.value


assert lookup(b"cuMemAlloc") == (ctypes.cast(cuda.cuMemAlloc_v2, c_void_p).value, 0)
assert lookup(b"cuNoSuchThing") == (None, 1)

pointer = c_uint64()
free, total = c_size_t(), c_size_t()
assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == SUCCESS and free.value == total.value
assert cuda.cuMemAlloc_v2(byref(pointer), c_size_t(3 * MIB)) == SUCCESS
assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == SUCCESS and total.value - free.value == 4 * MIB
start, size = c_uint64(), c_size_t()
inside = c_uint64(pointer.value + MIB)
assert cuda.cuMemGetAddressRange_v2(byref(start), byref(size), inside) == SUCCESS and start.value == pointer.value
assert cuda.cuMemFree_v2(inside) == INVALID_VALUE
assert cuda.cuMemFree_v2(pointer) == SUCCESS
assert cuda.cuMemFree_v2(pointer) == INVALID_VALUE
assert cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 60)) == OUT_OF_MEMORY
assert cuda.cuMemAlloc_v2(None, c_size_t(1)) == INVALID_VALUE

# A copy to memory that is not allocated is found out.
assert cuda.cuMemcpyHtoD_v2(pointer, ctypes.create_string_buffer(8), c_size_t(8)) == 700

text = c_char_p()
assert cuda.cuGetErrorString(2, byref(text)) == SUCCESS and text.value == b"out of memory"
assert cuda.cuGetErrorString(12345, byref(text)) == INVALID_VALUE

nvml = ctypes.CDLL("libnvidia-ml.so.1")
count = ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(byref(count)) == 0 and count.value == 1
# That there is no fabric is an answer, and not a question refused: PyTorch 2.13 insists.
gpu, fabric = ctypes.c_uint64(), (ctypes.c_uint32 * 9)(*[2] * 9)
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(gpu)) == 0
assert nvml.nvmlDeviceGetGpuFabricInfoV(gpu, byref(fabric)) == 0
assert list(fabric) == [2, *[0] * 7, 2], "the version, a state of 0, and nothing beyond"
