"""CUDA_VISIBLE_DEVICES: PyTorch sees the devices that it names, in its order, and NVML still sees all."""

import json
import os
import subprocess
import sys

SEEN = """
import common; common.load()
import ctypes, json, torch
nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
code = ctypes.CDLL("libcuda.so.1").cuInit(0)
seen = [str(torch.cuda.get_device_properties(device).uuid) for device in range(torch.cuda.device_count())]
memory = [torch.empty(1, device=f"cuda:{device}") for device in range(len(seen))]
print(json.dumps([seen, torch.cuda.is_available(), code, count.value]))
"""
HERE = os.path.dirname(os.path.abspath(__file__))


def start(visible):
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    return subprocess.Popen([sys.executable, "-c", SEEN], env=environment, cwd=HERE, stdout=subprocess.PIPE, text=True)


def answer(process):
    out = process.communicate(timeout=200)[0]
    assert process.returncode == 0
    return json.loads(out)


everything, turned, nothing = start(None), start("2,0"), start("-1")
(first, second, third), *rest = answer(everything)  # test_simcuda.py sets VRAMTAPE_SIM_DEVICES to 3
assert rest == [True, 0, 3]
assert answer(turned) == [[third, first], True, 0, 3]
assert answer(nothing) == [[], False, 100, 3]  # CUDA_ERROR_NO_DEVICE
assert answer(start(f"GPU-{second},GPU-{first}")) == [[second, first], True, 0, 3]
