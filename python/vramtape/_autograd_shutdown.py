"""The interpreter does not end while a thread of PyTorch's autograd still wants it.

When ``backward()`` returns, autograd's thread is not through: it drops the graph, for which it takes the interpreter's
lock. CPython kills a thread that asks for it while the interpreter ends, and in a destructor, where C++ permits no such
thing, that ends the process: ``terminate called without an active exception``, exit code 134, after a training that
went well (pytorch#190489; with torch 2.15 it hits most programs that end right after a ``backward()``).
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator

TASKS = "/proc/self/task"
# How PyTorch names autograd's threads, one for each device.
NAME = "pt_autograd_"
WAIT_S = 0.001
# A thread that is still busy then does not wait for the interpreter's lock; it may go on as it would without us.
LIMIT_S = 1.0

Progress = tuple[str, str, str, str]


def watch() -> None:
    """Waits for these threads at the end of this process."""
    atexit.register(_wait_until_idle)


def _wait_until_idle() -> None:
    """Waits until autograd's threads sleep and nothing has woken them since the last look."""
    limit = time.monotonic() + LIMIT_S
    before: list[Progress] = []
    while time.monotonic() < limit:
        now = list(_progress())
        if now == before and all(state.startswith("S") for _, state, *_ in now):
            return
        before = now
        time.sleep(WAIT_S)  # The interpreter's lock is free meanwhile: who waits for it has it and moves on.


def _progress() -> Iterator[Progress]:
    """Of each of autograd's threads: which it is, its state, and how often it stopped running."""
    try:
        tasks = os.listdir(TASKS)
    except OSError:  # No /proc is mounted: the program ends as it would without us.
        tasks = []
    for task in tasks:
        try:
            with open(f"{TASKS}/{task}/status") as status:
                said = dict(line.split(":", 1) for line in status)
        except OSError:  # It ended.
            continue
        if said["Name"].strip().startswith(NAME):
            stops = said["voluntary_ctxt_switches"], said["nonvoluntary_ctxt_switches"]
            yield (task, said["State"].strip(), *stops)
