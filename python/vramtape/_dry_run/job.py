"""Runs the program of a dry run, as ``vramtape run --sim`` does, in an environment of its own."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from .._launch import run
from .._values.level import level
from . import nvidia_smi, process

# Of the simulated driver.
_DEVICES = "VRAMTAPE_SIM_DEVICES"
_NOT_SIMULATED = "VRAMTAPE_SIM_NOT_SIMULATED"
# The file in the folder of a dry run.
NOT_SIMULATED = "not-simulated.txt"
# The folder of commands there.
COMMANDS = "bin"


@dataclass(frozen=True)
class Gpu:
    """The GPU of a dry run, as it was named, and how many of it."""

    name: str
    count: int
    is_default: bool


@dataclass(frozen=True)
class Ended:
    """How the program ended."""

    # As of ``subprocess``: negative for a signal.
    code: int
    seconds: float
    # By Ctrl-C, or a signal to the dry run.
    is_interrupted: bool


@dataclass(frozen=True)
class Job:
    """A program to run dry."""

    # The words of a process, as ``_launch.run.program`` returns them.
    command: list[str]
    gpu: Gpu
    # Each process ends after so many steps of its first optimizer.
    steps: Optional[int] = None
    # Changes to VRAMTAPE_CONF.
    conf: str = ""
    # Variables that the program has besides those of this process.
    environment: dict[str, str] = field(default_factory=dict)
    route: Optional[str] = None
    # Whether it runs again with the least and the most elements of guessed shapes.
    is_bounded: bool = False
    # A log of the memory of NCCL.
    nccl_log: Optional[str] = None

    def with_value(self, name: str, value: str) -> Job:
        """The job with a value of a parameter: for ``{NAME}`` in the command, else in the environment."""
        place = f"{{{name}}}"
        if any(place in word for word in self.command):
            return replace(self, command=[word.replace(place, value) for word in self.command])
        return replace(self, environment={**self.environment, name: value})


def run_program(job: Job, folder: Path) -> Ended:
    """Runs the program with its tapes in ``folder``.

    :raises: one of ``_launch.run.NOT_STARTED``, before the program starts
    """
    level()
    options = argparse.Namespace(
        route=job.route,
        conf=job.conf,
        output=str(folder / "run.vtape"),
        force=False,
        quiet=True,  # The tapes are the dry run's, not the user's.
        sim=job.gpu.name,
    )
    with _environment():
        os.environ.update(job.environment)
        os.environ[_DEVICES] = str(job.gpu.count)
        os.environ[_NOT_SIMULATED] = str(folder / NOT_SIMULATED)
        os.environ[process.FOLDER] = str(folder)
        os.environ[process.STEPS] = str(job.steps or "")
        nvidia_smi.provide(folder / COMMANDS)
        run.change_environment("run", options)
        started_s = time.monotonic()
        sys.stdout.flush()
        with subprocess.Popen(job.command, preexec_fn=run.restore_signals) as program:
            code, is_interrupted = _wait(program)
    return Ended(code, time.monotonic() - started_s, is_interrupted)


def _wait(program: subprocess.Popen[bytes]) -> tuple[int, bool]:
    """The exit code. Ctrl-C reaches the program by itself; SIGTERM is passed on."""
    is_interrupted = False

    def pass_on(number: int, _: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        if number != signal.SIGINT:
            program.send_signal(number)

    # Only the main thread has handlers.
    is_main = threading.current_thread() is threading.main_thread()
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ()
    before = {number: signal.signal(number, pass_on) for number in caught}
    try:
        return program.wait(), is_interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _environment() -> Iterator[None]:
    """The environment is as it was at the end of the block."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
