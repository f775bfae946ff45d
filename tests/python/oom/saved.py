"""The files of the first out of memory: saved.py ROUTE conf|monitor|broken FOLDER.

`ROUTE` is a route, or `pytorch` for PyTorch's own allocator alone. `broken` has a folder that cannot be made.
"""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

import vramtape

route, how, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if route != "pytorch":
    vramtape.install(route=route, conf=f'oom_dir:"{folder}"' if how != "monitor" else None)
if how == "monitor":
    vramtape.Monitor(oom_dir=folder)
assert not torch.cuda.is_initialized(), "to wait for an out of memory begins nothing"


def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def refused(mib):
    try:
        empty(mib)
    except torch.OutOfMemoryError as error:
        assert str(error).startswith(f"CUDA out of memory. Tried to allocate {mib}.00 MiB. GPU 0 has"), error
        return str(error)
    raise AssertionError("no torch.OutOfMemoryError")


held = [empty(100) for _ in range(3)]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    first = refused(900)
if how == "broken":
    assert not folder.exists() and "pinning set: " in first, first
    sys.exit()
assert not said, [str(one.message) for one in said]

suffixes = [".html", ".pickle"] if route == "pytorch" else [".html", ".pickle", ".vtape"]
stem = f"oom-rank0-pid{os.getpid()}-device0"
expected = [stem + suffix for suffix in suffixes]
assert sorted(os.listdir(folder)) == expected, os.listdir(folder)
times = {name: (folder / name).stat().st_mtime_ns for name in expected}
second = refused(904)
assert sorted(os.listdir(folder)) == expected, os.listdir(folder)
assert times == {name: (folder / name).stat().st_mtime_ns for name in expected}, "written once per process"

with open(folder / f"{stem}.pickle", "rb") as file:
    snapshot = pickle.load(file)
live = [
    block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"
]
assert sorted(block["size"] for block in live) == [100 << 20] * 3, live
assert "<html" in (folder / f"{stem}.html").read_text(encoding="utf-8")[:2000]
if route != "pytorch":
    tape = folder / f"{stem}.vtape"
    (trace,) = snapshot["device_traces"]
    assert [entry["action"] for entry in trace].count("oom") == 1, "the snapshot ends with the out of memory"
    report = json.loads(subprocess.check_output([harness.COMMAND, "explain", "--json", tape]))
    assert report["oom"]["verdict"] == "capacity", report["oom"]["verdict"]
    assert report["oom"]["request"]["requested_bytes"] == 900 << 20
    if route != "observe":
        assert first.endswith(f"\nvramtape: to know more: vramtape explain {tape}"), first
        assert str(tape) not in second, second
