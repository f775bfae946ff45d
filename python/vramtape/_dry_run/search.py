"""``--fit NAME=LOW..HIGH``: the largest value of a program's parameter with which it fits, found by few runs.

Memory is nearly an affine function of a batch size or a length. So two runs give a guess, and more runs confirm it: the
answer has fitted, and the next value has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._text import one_line
from . import peaks
from .job import Job
from .result import VERSION
from .text import aligned
from .verdict import Verdict

_VALUE_MAX = 1_000_000
# The second value, as a multiple of the first: far enough for a line through both.
_SECOND = 8


@dataclass(frozen=True)
class Parameter:
    """A parameter of a program, and its range."""

    name: str
    low: int
    high: int

    @classmethod
    def read(cls, text: str) -> Parameter:
        """Reads ``batch=1..512``.

        :raises ValueError: for another text, or an empty range
        """
        found = re.fullmatch(r"([A-Za-z_]\w*)=(\d+)\.\.(\d+)", text)
        if found is None:
            raise ValueError(f"--fit={text}: write a name and a range of whole numbers, as batch=1..512")
        low, high = int(found[2]), int(found[3])
        if not 0 < low <= high <= _VALUE_MAX:
            raise ValueError(f"--fit={text}: the range begins above 0, ends at {_VALUE_MAX} at most, and is not empty")
        return cls(found[1], low, high)


class _Stopped(Exception):
    """A run that is no answer: it failed, or was incomplete."""


class _Search:
    """The runs so far."""

    def __init__(
        self, job: Job, parameter: Parameter, margin: float, run: Callable[[Job, int], dict[str, Any]]
    ) -> None:
        self._job, self._parameter, self._margin, self._run = job, parameter, margin, run
        self.rows: list[dict[str, Any]] = []
        # The upper bound of the device total, by value: what has to fit.
        self._used: dict[int, int] = {}
        # The largest value that fits, and the smallest that does not.
        self.fits: Optional[int] = None
        self.exceeds = parameter.high + 1

    def try_value(self, value: int) -> None:
        """Runs with this value.

        :raises _Stopped: when the run is no answer
        """
        made = self._run(self._job.with_value(self._parameter.name, str(value)), value)
        fullest = peaks.fullest(made)
        memory_bytes = fullest["memory_bytes"] if fullest else None
        if fullest:
            self._used[value] = peaks.most_bytes(fullest)
        answer = {"verdict": made["verdict"], "why": made["why"]}
        self.rows.append({"value": value, **answer, "memory_bytes": memory_bytes, **peaks.peaks(fullest)})
        if made["verdict"] == Verdict.FITS.words:
            self.fits = value
        elif made["verdict"] == Verdict.DOES_NOT_FIT.words:
            self.exceeds = value
        else:
            raise _Stopped

    def next_value(self) -> Optional[int]:
        """The value of the next run; None where the answer is known."""
        if not self.rows:
            return self._parameter.low
        if self.fits is None or self.exceeds - self.fits == 1:
            return None
        first, last = self.fits + 1, self.exceeds - 1
        fitting = sorted((row for row in self.rows if row["verdict"] == Verdict.FITS.words), key=lambda it: it["value"])
        over = len(self.rows) - len(fitting)
        if over == 0:
            guess = self._guess(*fitting[-2:]) if len(fitting) > 1 else _SECOND * self.fits
            return min(max(guess, first), last)
        if self.rows[-1]["verdict"] != Verdict.FITS.words and len(fitting) > 1:
            # Below a guess that was too large, in steps that double.
            return max(self.exceeds - (1 << (over - 1)), first)
        return (first + last) // 2

    def _guess(self, one: dict[str, Any], other: dict[str, Any]) -> int:
        """The value at which the line through two runs reaches the end of the device."""
        used = [self._used[row["value"]] for row in (one, other)]
        slope = (used[1] - used[0]) / (other["value"] - one["value"])
        if slope <= 0:
            return self._parameter.high
        limit_bytes = (1 - self._margin) * other["memory_bytes"]
        return int(other["value"] + (limit_bytes - used[1]) / slope)


def largest(job: Job, parameter: Parameter, margin: float, run: Callable[[Job, int], dict[str, Any]]) -> dict[str, Any]:
    """Finds the largest value that fits; ``run`` makes a dry run with a value and returns its result."""
    search = _Search(job, parameter, margin, run)
    verdict = None
    try:
        while (value := search.next_value()) is not None:
            search.try_value(value)
        verdict = Verdict.DOES_NOT_FIT if search.fits is None else Verdict.FITS
    except _Stopped:
        verdict = next(it for it in Verdict if it.words == search.rows[-1]["verdict"])
    return {
        "version": VERSION,
        "command": job.command,
        "gpu": asdict(job.gpu),
        "parameter": asdict(parameter),
        "margin": margin,
        "largest": search.fits if verdict is Verdict.FITS else None,
        "exit_code": verdict.value,
        "runs": search.rows,
    }


def text(answer: dict[str, Any]) -> str:
    """The answer as lines."""
    return "\n".join([_headline(answer), "", *aligned(_cells(answer)), *_stopped(answer)])


def markdown(answer: dict[str, Any]) -> str:
    """The answer for a pull request."""
    head, *rows = ["| " + " | ".join(row) + " |" for row in _cells(answer)]
    return (
        "\n".join([f"### {_headline(answer)}", "", head, "|---:|---:|---:|---:|---|", *rows, *_stopped(answer)]) + "\n"
    )


def _headline(answer: dict[str, Any]) -> str:
    name, gpu = answer["parameter"]["name"], answer["gpu"]["name"]
    if answer["largest"] is not None:
        is_end = answer["largest"] == answer["parameter"]["high"]
        return f"largest {name} that fits on {gpu}: {answer['largest']}{', the end of the range' if is_end else ''}"
    if answer["exit_code"] == Verdict.DOES_NOT_FIT.value:
        return f"no {name} of the range fits on {gpu}"
    return f"the largest {name} on {gpu} is not known: a run was {answer['runs'][-1]['verdict']}"


def _cells(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    head = (answer["parameter"]["name"], *peaks.HEAD, "verdict")
    rows = sorted(answer["runs"], key=lambda row: int(row["value"]))
    return [head, *((str(row["value"]), *peaks.sizes(row), row["verdict"]) for row in rows)]


def _stopped(answer: dict[str, Any]) -> list[str]:
    unclear = (Verdict.FAILED.value, Verdict.INCOMPLETE.value)
    return ["", *map(one_line, answer["runs"][-1]["why"])] if answer["exit_code"] in unclear else []
