"""The guesses of values in a dry run, of all its processes (docs/values.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .._sizes import show


@dataclass(frozen=True)
class Guessed:
    """The guesses, as the result has them."""

    # Of each operator: the guesses, those of shapes, and the bytes of the results that have these shapes.
    operators: list[dict[str, Any]] = field(default_factory=list)
    # The most bytes of guessed shapes at one time, and their bounds. Of several devices and processes, the sums.
    live_max_bytes: int = 0
    lower_bytes: int = 0
    upper_bytes: int = 0
    # Whether runs with the least and the most elements of these shapes are in the bounds of the devices.
    is_bounded_by_runs: bool = False
    # Errors in the model: the operator and the exception.
    failures: list[str] = field(default_factory=list)


def guessed(processes: list[dict[str, Any]]) -> Guessed:
    """The sum of what the processes have written."""
    totals: dict[str, Counter[str]] = {}
    for process in processes:
        for name, guess in process["operators"].items():
            totals.setdefault(name, Counter()).update(guess)
    operators = [
        {"operator": name, "count": it["count"], "shapes": it["shapes"], "shaped_bytes": it["size_bytes"]}
        for name, it in sorted(totals.items())
    ]
    devices = [device for process in processes for device in process["devices"].values()]
    live, less, more = (
        sum(device[name] for device in devices) for name in ("live_max_bytes", "less_max_bytes", "more_max_bytes")
    )
    failures = sorted({failure for process in processes for failure in process["failures"]})
    return Guessed(operators, live, max(0, live - less), live + more, failures=failures)


def lines(guesses: dict[str, Any]) -> list[str]:
    """The guesses of a result as text; nothing where there are none."""
    shaped = [row for row in guesses["operators"] if row["shapes"]]
    others = [(row, row["count"] - row["shapes"]) for row in guesses["operators"]]
    parts = [f"{_count(count, 'value')} of {row['operator']}" for row, count in others if count]
    parts += [f"{_count(row['shapes'], 'shape')} of {row['operator']}" for row in shaped]
    made = [f"guesses: {', '.join(parts)}"] if parts else []
    if shaped:
        made[0] += (
            f"; up to {show(guesses['live_max_bytes'])} at a time in these shapes, "
            f"between {show(guesses['lower_bytes'])} and {show(guesses['upper_bytes'])}; "
        )
        made[0] += (
            "the bounds are those of runs with the least and the most elements"
            if guesses["is_bounded_by_runs"]
            else "--bounds includes what is computed from them"
        )
    if guesses["failures"]:
        made.append(f"errors in the model of values, with 0 instead: {', '.join(guesses['failures'])}")
    return made


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
