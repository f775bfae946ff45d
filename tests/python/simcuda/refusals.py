"""Calls that are not simulated fail with a message on stderr, as do wrong settings; nothing crashes."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LOAD = "import common; libraries = common.load(); "
TORCH = LOAD + "import torch; "
FAILS = """
def fails(body):
    try: body()
    except RuntimeError: return
    raise AssertionError("an error was expected")
"""
UNSIMULATED = (
    TORCH
    + FAILS
    + """
import ctypes
NOT_SUPPORTED = 801
assert libraries[0].cudaMallocManaged() == libraries[0].cudaMallocAsync() == NOT_SUPPORTED
text = ctypes.create_string_buffer(1 << 16)
assert libraries[0].simcuda_not_simulated(text, len(text)) == 0
counts = {name: int(count) for count, name in (line.split(" ", 1) for line in text.value.decode().splitlines())}
assert counts == {"cudaMallocAsync": 1, "cudaMallocManaged": 1}, counts
before = sum(counts.values())
assert libraries[0].cudaMallocManaged() == NOT_SUPPORTED
libraries[0].simcuda_not_simulated(text, len(text))
assert sum(int(line.split(b" ")[0]) for line in text.value.splitlines()) > before, text.value
"""
)
ASYNC = TORCH + FAILS + 'fails(lambda: torch.empty(1, device="cuda"))'
INIT = LOAD + "assert libraries[0].cuInit(0) == 3; assert libraries[0].cuInit(0) == 3"
CASES = [
    # (settings, program that must succeed, what stderr must say)
    ({}, UNSIMULATED, ["cudaMallocManaged: not simulated", "cudaMallocAsync: not simulated"]),
    ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, ASYNC, ["leave backend:native"]),
    ({"VRAMTAPE_SIM_MEMORY": "a lot"}, ASYNC, ["VRAMTAPE_SIM_MEMORY=a lot: write a size"]),
    ({"VRAMTAPE_SIM_MEMORY": "80"}, INIT, ["VRAMTAPE_SIM_MEMORY=80: write a size", "with its unit"]),
    ({"VRAMTAPE_SIM_GPU": "rtx4080"}, INIT, ["VRAMTAPE_SIM_GPU=rtx4080: write a name of `vramtape fit --gpu list`"]),
    ({"VRAMTAPE_SIM_DEVICES": "0"}, INIT, ["VRAMTAPE_SIM_DEVICES=0: write a whole number from 1 to 16"]),
    ({"VRAMTAPE_SIM_PINNED": "4"}, INIT, ["VRAMTAPE_SIM_PINNED=4: write a size with its unit"]),
    ({"VRAMTAPE_SIM_EVENT_LAG": "-1"}, INIT, ["VRAMTAPE_SIM_EVENT_LAG=-1: write a whole number from 0"]),
]

running = []
for settings, program, sentences in CASES:
    process = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, **settings}, cwd=HERE, stderr=subprocess.PIPE, text=True
    )
    running.append((process, sentences))
for process, sentences in running:
    stderr = process.communicate(timeout=200)[1]
    assert process.returncode == 0, (process.args, process.returncode, stderr)
    for sentence in sentences:
        assert stderr.count(sentence) == 1, stderr
