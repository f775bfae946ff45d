"""The lines behind PyTorch's sentence on a route: the verdict, the pinning set with its code, and the command."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

import vramtape

route = sys.argv[1]
vramtape.install(route=route)
assert vramtape.active_route() == route, vramtape.active_route()


def block(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def hold():
    """Three segments of 300 MiB with free blocks of 180, 90 and 90 MiB between live ones of 90 MiB."""
    segments = [block(300) for _ in range(3)]
    del segments
    held = [block(90) for _ in range(9)]
    return [held[at] for at in (2, 4, 5, 6, 7, 8)]


held = hold()
try:
    block(260)
except torch.OutOfMemoryError as error:
    text = str(error)
else:
    raise AssertionError("no torch.OutOfMemoryError")

# Torch's own sentence is in front, to its last byte.
sentence, *lines = text.split("\n")
assert sentence.startswith("CUDA out of memory. Tried to allocate 260.00 MiB. GPU 0 has a total capacity of"), text
assert sentence.endswith("#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"), text
verdict, pinning, command = lines
assert verdict.startswith("vramtape: fragmentation: 360.00 MiB are reserved but unallocated and 124.00 MiB "), verdict
# The free 180 MiB and the live 90 MiB behind them are one block of 270 MiB.
start = "vramtape: pinning set: 1 live block, 90.00 MiB; freed before the request it serves it; "
assert pinning.startswith(start), pinning
if "stacks:alloc" in os.environ.get("VRAMTAPE_CONF", ""):
    frames = r"90\.00 MiB of them from lines\.py:\d+ block < lines\.py:\d+ hold"
    assert re.match(frames, pinning[len(start) :]), pinning
else:
    assert pinning[len(start) :] == "no stacks: set VRAMTAPE_CONF=stacks_every:1MiB for the code that allocated them"

# The command that the last line has explains the same request, with the same verdict and the same bytes.
run = command.removeprefix("vramtape: to know more: vramtape ")
assert run != command, command
report = subprocess.check_output([harness.COMMAND, *run.split()], text=True)
assert report.splitlines()[0].startswith("fragmentation: 360.00 MiB are reserved but unallocated"), report
assert "pinning set: 1 live block, 90.00 MiB" in report, report

# A pasted message is read the same with the lines and without.
explain = [harness.COMMAND, "explain", "--json", "--message", "-"]
assert subprocess.check_output(explain, input=text, text=True) == subprocess.check_output(
    explain, input=sentence, text=True
)
