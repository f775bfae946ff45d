"""The estimators of the scoreboard. Each answers the figures of a row of `tests/python/dry_run/rows.tsv`."""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "tests", "python", "training")]
import test_dry_run_rows as rows

import harness

RESERVED = "peak_reserved_bytes"
LIMIT_S = 600


@dataclass(frozen=True)
class Row:
    """A program, and the published figures of a GPU for it: text with a unit, by quantity."""

    name: str
    program: str
    gpu: str
    published: dict[str, str]
    # How far the dry run may be from allocated memory, in percent, where other versions were published.
    within: float = 0.0

    @property
    def script(self) -> str:
        return next(word for word in shlex.split(self.program) if word.endswith(".py"))


@dataclass(frozen=True)
class Answer:
    """The answer of a contestant for a row. Without one, `reason` is why it could not run."""

    # The differences from the published figures in percent, of allocated and of reserved memory.
    allocated: list[float] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)
    seconds: float | None = None
    host_mib: int | None = None
    # The lines that a user has to change in the program.
    changed_lines: int | None = None
    reason: str = ""


def table() -> list[Row]:
    """The rows that publish bytes."""
    found: dict[str, Row] = {}
    for line in rows.table():
        within = float(line["within %"])
        row = found.setdefault(line["row"], Row(line["row"], line["program"], line["gpu"], {}, within))
        if " " in line["published"]:
            row.published[line["quantity"]] = line["published"]
    return list(found.values())


def differences(row: Row, figures: dict[str, str]) -> dict[str, list[float]]:
    """The difference of each published figure that was answered."""
    off: dict[str, list[float]] = {"allocated": [], "reserved": []}
    for quantity, published in row.published.items():
        if quantity in figures:
            kind = "reserved" if quantity == RESERVED else "allocated"
            off[kind].append(rows.off_by(published, figures[quantity]))
    return off


def dry_run(row: Row) -> Answer:
    """`vramtape dry-run` of the program as it is."""
    try:
        figures, cost = rows.dry_run(row.gpu, row.program)
    except AssertionError as error:
        return Answer(changed_lines=0, reason=_last_line(str(error)))
    return Answer(**differences(row, figures), seconds=cost["seconds"], host_mib=cost["host_mib"], changed_lines=0)


def mem_tracker(row: Row) -> Answer:
    """PyTorch's MemTracker under FakeTensorMode."""
    return _child(row, "tracked.py", {"VRAMTAPE_SIM_GPU": row.gpu})


def accelerate(row: Row) -> Answer:
    """`accelerate estimate-memory`, which knows a model's weights and Adam."""
    words = shlex.split(row.program)
    if row.script == "qwen3.py" or (row.script == "sft.py" and "full" in words):
        return _child(row, "estimated.py", {})
    kinds = {
        "sft.py": "adapters",
        "nf4.py": "4-bit weights with adapters",
        "fsdp.py": "several GPUs",
        "zero.py": "several GPUs",
    }
    return Answer(reason=f"answers nothing for {kinds.get(row.script, 'a model that is on no hub')}")


def fakegpu(row: Row) -> Answer:
    """FakeGPU executes on the CPU where VRAMTAPE_FAKEGPU names its checkout; else its published error of this row."""
    if os.environ.get("VRAMTAPE_FAKEGPU"):
        return _child(row, "faked.py", {"PYTHONPATH": os.environ["VRAMTAPE_FAKEGPU"]})
    error = _published_errors().get(row.name)
    return Answer(reason="published nothing for this row") if error is None else Answer(allocated=[error])


# By the title of their columns.
ALL = {
    "dry-run": dry_run,
    "MemTracker": mem_tracker,
    "accelerate": accelerate,
    "FakeGPU": fakegpu,
}


def _published_errors() -> dict[str, float]:
    with open(os.path.join(HERE, "published.tsv"), newline="") as file:
        return {line["row"]: float(line["error %"]) for line in csv.DictReader(file, delimiter="\t")}


def _child(row: Row, wrapper: str, settings: dict[str, str]) -> Answer:
    """Runs the row's program under a wrapper of this folder, which prints figures as the program does."""
    words = shlex.split(row.program)
    ranks = words[1] if words[0] == "--world-size" else "1"
    script = words[words.index(row.script) :]
    program = os.path.join(rows.PROGRAMS, script[0])
    command = [rows.interpreter(script[0]), os.path.join(HERE, wrapper), program, *script[1:]]
    environment = harness.clean_environment(WORLD_SIZE=ranks, RANK="0", LOCAL_RANK="0", **settings)
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+") as log:
        started_s = time.monotonic()
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        usage = _wait(process, started_s)
        seconds = round(time.monotonic() - started_s, 1)
        log.seek(0)
        printed = log.read()
    figures = dict(line.split()[1:] for line in printed.splitlines() if line.startswith("FIGURE "))
    lines = figures.get("changed_lines")
    reason = "" if process.returncode == 0 else _last_line(printed) or f"ended with {process.returncode}"
    if usage is None:
        return Answer(reason=f"did not end within {LIMIT_S} s")
    answered = {"allocated": [], "reserved": []} if reason else differences(row, figures)
    if not reason and not answered["allocated"]:
        reason = "no figure"
    return Answer(
        **answered,
        seconds=seconds,
        host_mib=usage.ru_maxrss // 1024,
        changed_lines=int(lines) if lines else None,
        reason=reason,
    )


def _wait(process: subprocess.Popen, started_s: float):
    """What the process used, or nothing if it was ended for its time."""
    while time.monotonic() < started_s + LIMIT_S:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        time.sleep(0.05)
    process.kill()
    process.wait()
    return None


def _last_line(text: str) -> str:
    """The last line that is an error, without what differs from run to run."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))] or lines
    line = errors[-1].partition(" at 0x")[0] if errors else ""
    return line if len(line) <= 140 else line[:137] + "..."
