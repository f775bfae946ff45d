"""What the device says of itself: what `gpus` and the simulated driver have to say too."""

import ctypes

import torch

from driver import Driver

ATTRIBUTES = 160  # CUdevice_attribute, from 1; more than CUDA 13 has.


def run(simulated):
    driver = Driver()
    value = ctypes.c_int()
    attributes = {}
    for number in range(1, ATTRIBUTES):
        if driver.library.cuDeviceGetAttribute(ctypes.byref(value), ctypes.c_int(number), ctypes.c_int(0)) == 0:
            attributes[number] = value.value
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {
        "attributes": attributes,
        "total_bytes": total_bytes,
        "outside_bytes": total_bytes - free_bytes - torch.cuda.memory_reserved(),
        "cudnn": torch.backends.cudnn.version(),
        "is_simulated": simulated,
    }
