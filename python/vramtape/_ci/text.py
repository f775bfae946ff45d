"""The texts of reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._sizes import show
from .measure import Usage

# The title of a report's section.
SECTION = "vramtape"
_ROWS = 8


def over(limit_bytes: int, used_bytes: int, kind: str, device: int) -> str:
    """A peak over the limit."""
    shown = _exact(used_bytes, limit_bytes)
    return f"Test is limited to {_exact(limit_bytes, used_bytes)} of GPU memory{_on(device)} but {kind} {shown}"


def leaked(limit_bytes: int, leaked_bytes: int, device: int) -> str:
    """Memory that a test left, over the limit."""
    shown = _exact(leaked_bytes, limit_bytes)
    limit = _exact(limit_bytes, leaked_bytes)
    return f"Test is limited to {limit} of leaked GPU memory{_on(device)} but leaves {shown}"


def lost(count: int) -> str:
    """A limit that cannot be checked."""
    return (
        f"The limit cannot be checked: {count} records at the beginning of the test are lost, because the ring is "
        "smaller than the test; set ring_events in VRAMTAPE_CONF higher"
    )


def not_simulated(calls: list[str]) -> str:
    """Driver calls that the simulated driver refused."""
    listed = "\n".join(f"  {name}" for name in calls)
    return (
        "The simulated driver does not simulate calls of this test, so its memory may differ from a GPU's:\n"
        f"{listed}\nRun the test on a GPU, or avoid the calls"
    )


class Listing:
    """The code that holds memory, as a table."""

    def __init__(self, root: Path, stacks: int) -> None:
        self._root = root
        self._stacks = stacks

    def peak(self, one: Usage) -> str:
        """The holders of the memory that the test had allocated at its peak."""
        before = f", above {show(one.start_allocated_bytes)} at its start" if one.start_allocated_bytes else ""
        head = f"Peak{_on(one.device)}: {show(one.grown_bytes)}{before}. The largest holders:"
        return "\n".join([head, *self._rows(one.holders, "peak")])

    def end(self, one: Usage) -> str:
        """The holders of the memory that the test had allocated and left."""
        return "\n".join([f"Left{_on(one.device)} after the test, by:", *self._rows(one.holders, "end")])

    def _rows(self, holders: dict[str, Any], moment: str) -> list[str]:
        found = holders[moment]
        if found is None:
            return [f"  {holders['note']}"]
        rows = sorted((row for row in found["rows"] if row["new_bytes"]), key=lambda row: -int(row["new_bytes"]))
        lines = []
        for row in rows[:_ROWS]:
            share = 100 * row["new_bytes"] / found["new_bytes"]
            lines.append(f"  {show(row['new_bytes']):>11}  {share:5.1f} %  {row['label']}")
            lines.extend(f"{'':24}{line}" for line in self._stack(row["stacks"]))
        if len(rows) > _ROWS:
            rest = rows[_ROWS:]
            size_bytes = sum(row["new_bytes"] for row in rest)
            lines.append(f"  {show(size_bytes):>11}  {'':7}  {sum(row['holders'] for row in rest)} others")
        return lines

    def _stack(self, stacks: list[Any]) -> list[str]:
        """Your own frames of the largest stack, innermost first."""
        frames = [frame for frame in stacks[0]["frames"] if frame["library"] is None] if stacks else []
        shown = frames[: self._stacks or None]
        return [f"{self._path(frame['file'])}:{frame['line']} in {frame['function']}" for frame in shown]

    def _path(self, file: str) -> str:
        return file.removeprefix(f"{self._root}{os.sep}")


def _on(device: int) -> str:
    return f" on device {device}" if device else ""


def _exact(size_bytes: int, other_bytes: int) -> str:
    """The size; in bytes where the rounded sizes would look equal."""
    return f"{size_bytes} bytes" if show(size_bytes) == show(other_bytes) else show(size_bytes)
