"""``--calibrate RUN``: how a dry run differs from a recorded run of the same program, and in which code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Union

from .. import _lab, _text
from .._query import Error
from .._sizes import show
from .._text import one_line
from .measure import Measured

# Places of the code that are listed.
_DIFFERENCES_MAX = 8
_FIGURES = (("peak allocated", "peak_allocated_bytes", "peak"), ("peak reserved", "peak_reserved_bytes", "reserved"))


def check(run: Union[str, Path]) -> None:
    """Reads the recorded run, before a program starts.

    :raises ValueError: when it cannot be read
    """
    try:
        _lab.info(run)
    except Error as error:
        raise ValueError(f"--calibrate: {error}") from None


def compare(run: Union[str, Path], measured: Measured) -> Optional[dict[str, Any]]:
    """The differences of the fullest process from a recorded run, by device; None if nothing was allocated.

    :raises vramtape.Error: when the runs cannot be compared
    """
    fullest = max(measured.devices, key=lambda use: use.fullest_bytes, default=None)
    if fullest is None or fullest.fullest is None:
        _text.say(f"{run} is not compared: nothing was allocated on a GPU")
        return None
    compared = _lab.diff(run, fullest.fullest)
    return {"run": str(run), "devices": [_device(device) for device in compared["devices"]]}


def _device(compared: dict[str, Any]) -> dict[str, Any]:
    def change(group: dict[str, Any]) -> int:
        return int(group["after_bytes"]) - int(group["before_bytes"])

    groups = sorted(compared["at_peak"]["code"], key=lambda group: -abs(change(group)))
    return {
        "device": compared["device"],
        **{name: _both(compared[figure]) for _, name, figure in _FIGURES},
        "differences": [{"code": group["name"], **_both(group)} for group in groups[:_DIFFERENCES_MAX]],
    }


def _both(compared: dict[str, Any]) -> dict[str, int]:
    return {"recorded": compared["before_bytes"], "dry_run": compared["after_bytes"]}


def table(calibration: dict[str, Any]) -> list[list[tuple[str, ...]]]:
    """The tables of a calibration, two for each device: the figures, and the code that holds more or less."""
    tables: list[list[tuple[str, ...]]] = []
    for device in calibration["devices"]:
        head = (f"device {device['device']}", "recorded", "dry run", "difference", "")
        figures = [(label, device[name]) for label, name, _ in _FIGURES]
        tables.append([head, *(_row(label, both) for label, both in figures)])
        if device["differences"]:
            head = ("held at the peak by", *head[1:])
            tables.append([head, *(_row(one_line(one["code"]), one) for one in device["differences"])])
    return tables


def _row(name: str, both: dict[str, int]) -> tuple[str, ...]:
    change = both["dry_run"] - both["recorded"]
    sign = "-" if change < 0 else "+"
    share = f"{100 * change / both['recorded']:+.2f} %" if change and both["recorded"] else ""
    return (name, show(both["recorded"]), show(both["dry_run"]), f"{sign if change else ''}{show(abs(change))}", share)
