"""Runs a program of `programs.py`: run.py JOB, where JOB is {"program", "route", "output", "settings", "conf",
"changes"}. Prints "served" or "out of memory"; the recorded run is in `output`.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import harness

harness.load_simcuda()

import programs
import torch

job = json.loads(sys.argv[1])
if job["settings"]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = job["settings"]
    torch._C._accelerator_setAllocatorSettings(job["settings"])  # It read the variable when it was imported.
if job["route"] == "native":
    torch.cuda.memory._record_memory_history("all", stacks="python")
else:
    import vramtape

    assert vramtape.install(job["route"], tape=job["output"], conf=job["conf"]) == job["route"]
try:
    getattr(programs, job["program"])(programs.Run(**job["changes"]))
except torch.OutOfMemoryError:
    if job["route"] == "native":
        torch.cuda.memory._dump_snapshot(job["output"])
    print("out of memory")
else:
    print("served")
