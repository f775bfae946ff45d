"""Runs scripts, each in a fork of this process: torch is imported once, beside the simulated driver.

A line of standard input is a job: {"script", "arguments", "environment", "output"}. The line that answers it is the
script's exit code; its output is in the file.
"""

import gc
import json
import os
import runpy
import sys

import harness

harness.load_simcuda()

import torch  # noqa: F401  (the forks have it)

# The collections of a fork leave out the objects of torch. The one at its end took half of a short script's time.
gc.freeze()


def run(job):
    """Runs the script as if this process had been started for it."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(job["output"], os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(job["environment"])
    packages = os.environ.get("PYTHONPATH", "")
    sys.path[:1] = [os.path.dirname(job["script"]), *filter(None, packages.split(os.pathsep))]
    sys.argv = [job["script"], *job["arguments"]]
    runpy.run_path(job["script"], run_name="__main__")


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
        sys.exit()
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
