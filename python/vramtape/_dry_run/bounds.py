"""``--bounds``: runs again with the least and with the most elements of guessed shapes.

The bounds of one run have the results whose shape was guessed (docs/values.md); these have everything that is computed
from them, too.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Optional

from .. import _text
from .._values.level import HIGH, LIKELY, LOW, VARIABLE, level
from .job import Job, run_program
from .measure import DeviceUse, Measured, Range, measure

_MEANING = {LOW: "the least", HIGH: "the most"}


def check() -> None:
    """Checks that the environment leaves the level of guesses open.

    :raises ValueError: if it names another one than the usual
    """
    if level() != LIKELY:
        raise ValueError(f"--bounds runs {LOW} and {HIGH} itself: leave out {VARIABLE}={level()}")


def widen(job: Job, measured: Measured, nccl: Optional[Range]) -> None:
    """Widens the numbers of a run by those of two more, if it has guessed shapes; ``nccl`` is as in ``measure``."""
    if not any(row["shapes"] for row in measured.guessed.operators):
        return
    ran = [_run(job, measured, level, nccl) for level in (LOW, HIGH)]
    measured.guessed = replace(measured.guessed, is_bounded_by_runs=all(ran))


def _run(job: Job, measured: Measured, level: str, nccl: Optional[Range]) -> bool:
    """Whether a run at a level of guesses has ended well."""
    of = f"the run with {_MEANING[level]} elements of guessed shapes"
    _text.say(of)
    with tempfile.TemporaryDirectory(prefix="vramtape-dry-run-", dir=os.environ.get("TMPDIR")) as folder:
        ended = run_program(replace(job, environment={**job.environment, VARIABLE: level}), Path(folder))
        other = measure(Path(folder), ended.code, nccl)
    for use in measured.devices:
        for same in (one for one in other.devices if one.device == use.device):
            _include(use, same)
    if other.out_of_memory:
        measured.over.append(f"{of} is out of memory")
    elif ended.code != 0 or other.not_simulated or other.cut:
        measured.unbounded.append(f"{of} did not end well (exit code {ended.code}), so its memory is no bound")
    return not other.out_of_memory and ended.code == 0


def _include(use: DeviceUse, other: DeviceUse) -> None:
    use.allocated = _joined(use.allocated, other.allocated)
    use.reserved = _joined(use.reserved, other.reserved)
    use.outside = _joined(use.outside, other.outside)


def _joined(one: Range, other: Range) -> Range:
    return Range(one.expected, min(one.lower, other.lower), max(one.upper, other.upper))
