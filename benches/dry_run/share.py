"""The share of training steps that is spent in the simulated libraries and in the allocator.

py-spy samples the stacks of a dry run, Python's and native ones together. A sample counts where `main` of the program,
or a backward pass, is on the stack and no import is; it is spent in the libraries where one of their functions is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

from contestants import ROOT, harness

SAMPLES_A_SECOND = 500
LIBRARIES = re.compile(r"\((libcuda\.so|libsimcuda|libvramtape)")
IS_STEP = re.compile(r"(^|;)main \(|::Engine::")
IS_VALUES = re.compile(r"\(vramtape/_values/")
# Programs of `examples/`, each with a function `main` that trains.
PROGRAMS = {"gpt.py": ["--steps", "300"]}


def shares(program: str) -> dict[str, float]:
    """The samples of a program's steps, and the percentages of them in the libraries and in the model of values."""
    command = [sys.executable, "-m", "vramtape", "dry-run", "--quiet", os.path.join(ROOT, "examples", program)]
    py_spy = os.path.join(os.path.dirname(sys.executable), "py-spy")
    flags = ["record", "--native", "--subprocesses", "--rate", str(SAMPLES_A_SECOND), "--format", "raw"]
    with tempfile.TemporaryDirectory() as folder:
        stacks = os.path.join(folder, "stacks")
        environment = harness.clean_environment(**harness.PACKAGE)
        done = subprocess.run(
            [py_spy, *flags, "--output", stacks, "--", *command, *PROGRAMS[program]],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        assert done.returncode == 0, f"py-spy ended with {done.returncode}:\n{done.stdout}"
        with open(stacks) as file:
            return count(file)


def count(lines) -> dict[str, float]:
    counted = {"samples": 0, "libraries": 0, "values": 0}
    for line in lines:
        stack, _, number = line.rpartition(" ")
        if not IS_STEP.search(stack) or "_find_and_load" in stack:
            continue
        counted["samples"] += int(number)
        if LIBRARIES.search(stack):
            counted["libraries"] += int(number)
        elif IS_VALUES.search(stack):
            counted["values"] += int(number)
    assert counted["samples"], "no sample is in a step"
    percent = {kind: 100 * counted[kind] / counted["samples"] for kind in ("libraries", "values")}
    return {"samples": counted["samples"], **percent}
