"""The peaks of a result's fullest device, as tables of several runs have them."""

from __future__ import annotations

from typing import Any, Optional

from .._sizes import show

PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "device_total_bytes")
HEAD = ("peak allocated", "peak reserved", "device total")


def fullest(result: dict[str, Any]) -> Optional[dict[str, Any]]:
    """The device with the largest total; None where the result has none."""
    return max(result["devices"], key=lambda device: int(device["device_total_bytes"]), default=None)


def peaks(device: Optional[dict[str, Any]]) -> dict[str, Any]:
    """The peaks of a device; None for each without one."""
    return {name: device[name] if device else None for name in PEAKS}


def most_bytes(device: dict[str, Any]) -> int:
    """The upper bound of a device's total."""
    bounds = device["bounds"].get("device_total_bytes")
    return int(bounds["upper"] if bounds else device["device_total_bytes"])


def sizes(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a row's peaks."""
    return tuple("" if row[name] is None else show(row[name]) for name in PEAKS)
