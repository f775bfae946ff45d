"""The attributes of the device, to compare with those of `gpus` and of the simulated driver."""

import ctypes
import json

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
        "cudnn_properties": "skipped" if simulated else cudnn_properties(),
        "is_simulated": simulated,
    }


def cudnn_properties():
    """The device in cuDNN's own words, as its heuristics read it: JSON, or the call that failed."""
    library, handle, properties = ctypes.CDLL("libcudnn.so.9"), ctypes.c_void_p(), ctypes.c_void_p()
    count, text = ctypes.c_int64(), ctypes.create_string_buffer(1 << 16)
    size = ctypes.c_int64(len(text))
    # cudnnBackendDescriptorType_t, then attribute names with their types, of cudnn_backend.h.
    calls = (
        ("cudnnCreate", ctypes.byref(handle)),
        ("cudnnBackendCreateDescriptor", ctypes.c_int(38), ctypes.byref(properties)),
        ("cudnnBackendSetAttribute", properties, 2701, 0, ctypes.c_int64(1), ctypes.byref(handle)),
        ("cudnnBackendFinalize", properties),
        ("cudnnBackendGetAttribute", properties, 2702, 20, size, ctypes.byref(count), text),
    )
    for name, *arguments in calls:
        code = getattr(library, name)(*arguments)
        if code != 0:
            return f"{name} answered {code}"
    return json.loads(text.value)
