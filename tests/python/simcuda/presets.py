"""VRAMTAPE_SIM_GPU: what PyTorch, CUDA and NVML report of a GPU, its context in free memory, and cuBLAS's workspace."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
REPORTS = """
import common; libraries = common.load()
import ctypes, json, sys, torch

driver, _, nvml = libraries
handle = ctypes.c_uint64()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0


def nvml_memory():
    memory = (ctypes.c_uint64 * 3)()
    assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
    wide = (ctypes.c_uint64 * 5)(40 | 2 << 24)
    assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, wide) == 0
    assert (wide[1], wide[2], wide[3], wide[4]) == (memory[0], 0, memory[1], memory[2])
    assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, (ctypes.c_uint64 * 5)(1)) != 0
    return tuple(memory)


def process_bytes():
    count, processes = ctypes.c_uint(4), (ctypes.c_uint64 * 8)()
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(count), processes) == 0
    assert count.value == 1
    return processes[1]


properties = torch.cuda.get_device_properties(0)
total = properties.total_memory
assert nvml_memory() == (total, total, 0), "there is no context yet"
context = total - torch.cuda.mem_get_info()[0]
assert torch.cuda.mem_get_info() == (total - context, total)
assert nvml_memory() == (total, total - context, context) and process_bytes() == context

a = torch.ones(1024, 1024, device="cuda")
before = torch.cuda.memory_allocated()
free = torch.cuda.mem_get_info()[0]
reserved = torch.cuda.memory_reserved()
assert free == total - context - reserved, (free, total, context, reserved)
assert nvml_memory()[2] == process_bytes() == context + reserved
product = a @ a
workspace = torch.cuda.memory_allocated() - before - product.nbytes

name, major, minor = ctypes.create_string_buffer(96), ctypes.c_int(), ctypes.c_int()
assert nvml.nvmlDeviceGetName(handle, name, len(name)) == 0
assert nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) == 0
assert name.value.decode() == properties.name == torch.cuda.get_device_name()
assert (major.value, minor.value) == torch.cuda.get_device_capability() == (properties.major, properties.minor)


def attribute(number):
    value = ctypes.c_int()
    assert driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0) == 0
    return value.value


assert attribute(16) == properties.multi_processor_count and attribute(38) == properties.L2_cache_size
assert (attribute(75), attribute(76)) == torch.cuda.get_device_capability()
print(json.dumps({
    "name": properties.name,
    "capability": torch.cuda.get_device_capability(),
    "total": total,
    "context": context,
    "workspace": workspace,
    "multiprocessors": properties.multi_processor_count,
    "threads": properties.max_threads_per_multi_processor,
    "l2": properties.L2_cache_size,
    "shared": [attribute(81), attribute(97)],
    "blocks": attribute(106),
    "clocks": [attribute(13), attribute(36), attribute(37)],
}))
"""
OWN = """
name = "lab-gpu"
memory_gib = 2
capability = "9.0"
multiprocessors = 16
l2_kib = 1024
clock_mhz = 1000
memory_clock_mhz = 2000
memory_bus_bits = 1024
context = { lower_bytes = 1, expected_bytes = 3000000, upper_bytes = 4000000, source = "measured" }
"""


def start(gpu, **settings):
    environment = {**os.environ, **settings, "VRAMTAPE_SIM_GPU": gpu}
    return subprocess.Popen(
        [sys.executable, "-c", REPORTS],
        env=environment,
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report(process):
    out, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def workspace_bytes(capability):
    """What PyTorch's cuBLAS handle keeps after a product: 32 MiB on Hopper, 8.125 MiB on others, nothing from 2.15."""
    torch = tuple(int(number) for number in version("torch").split(".")[:2])
    return 0 if torch >= (2, 15) else 33_554_432 if capability == [9, 0] else 8_519_680


EXPECTED = {
    "h100": {
        "name": "NVIDIA H100 80GB HBM3",
        "capability": [9, 0],
        "total": int(79.11 * 2**30),
        "context": 575 * MIB,
        "multiprocessors": 132,
        "threads": 2048,
        "l2": 50 * MIB,
        "shared": [228 << 10, 227 << 10],
        "blocks": 32,
        "clocks": [1_980_000, 2_619_000, 5120],
    },
    "a100-80gb": {
        "name": "NVIDIA A100-SXM4-80GB",
        "capability": [8, 0],
        "total": int(79.14 * 2**30),
        "context": 476_839_936,
        "multiprocessors": 108,
        "threads": 2048,
        "l2": 40 * MIB,
        "shared": [164 << 10, 163 << 10],
        "blocks": 32,
        "clocks": [1_410_000, 1_593_000, 5120],
    },
    "rtx4090": {
        "name": "NVIDIA GeForce RTX 4090",
        "capability": [8, 9],
        "total": int(23.52 * 2**30),
        "context": 426 * MIB,
        "multiprocessors": 128,
        "threads": 1536,
        "l2": 72 * MIB,
        "shared": [100 << 10, 99 << 10],
        "blocks": 24,
        "clocks": [2_520_000, 10_501_000, 384],
    },
    "own": {
        "name": "lab-gpu",
        "capability": [9, 0],
        "total": 2 << 30,
        "context": 3_000_000,
        "multiprocessors": 16,
        "threads": 2048,
        "l2": MIB,
        "shared": [228 << 10, 227 << 10],
        "blocks": 32,
        "clocks": [1_000_000, 2_000_000, 1024],
    },
}

with tempfile.TemporaryDirectory() as folder:
    own = os.path.join(folder, "own.toml")
    with open(own, "w", encoding="utf-8") as file:
        file.write(OWN)
    running = {gpu: start(own if gpu == "own" else gpu) for gpu in EXPECTED}
    small, unfit = start("h100", VRAMTAPE_SIM_MEMORY="2GiB"), start("h100", VRAMTAPE_SIM_MEMORY="512MiB")
    for gpu, process in running.items():
        expected = EXPECTED[gpu]
        expected["workspace"] = workspace_bytes(expected["capability"])
        found = report(process)
        assert found == expected, (gpu, found, expected)
    found = report(small)
    assert (found["total"], found["context"]) == (2 << 30, 575 * MIB), found
    errors = unfit.communicate(timeout=200)[1]
    assert unfit.returncode == 1 and "out of memory" in errors, errors
