"""The tape is in its file when the exception is there: a program that dies of it at once leaves all of the tape.

killed_after_oom.py TAPE runs it in a child that kills itself, and asks the command what the tape holds.
"""

import json
import os
import signal
import subprocess
import sys

if os.environ.get("VRAMTAPE_TEST_CHILD"):
    from _start import torch

    kept = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
    try:
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("no torch.OutOfMemoryError")

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tempfile

import harness

with tempfile.TemporaryDirectory() as folder:
    tape = os.path.join(folder, "run.vtape")
    settings = {"VRAMTAPE_CONF": f"record:file,tape:{tape}", "VRAMTAPE_TEST_CHILD": "1"}
    child = subprocess.run([sys.executable, __file__], env={**os.environ, **settings})
    assert child.returncode == -signal.SIGKILL, child.returncode
    info = json.loads(subprocess.check_output([harness.COMMAND, "info", "--json", tape]))
    (device,) = info["devices"]
    assert device["events"]["oom"] == 1, device
