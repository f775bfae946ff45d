"""Sizes of memory as people write and read them. All units are powers of two: of memory, GB are GiB."""

from __future__ import annotations

import re
from typing import Optional

_UNITS = "kmgt"


def parse(text: str) -> Optional[int]:
    """The bytes of a size with its unit, such as ``"4 GiB"``, ``"24GB"`` or ``"512 B"``; None for any other text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kmgt])i?b?|b)", text.strip().lower())
    if found is None:
        return None
    number, unit = found.groups()
    return int(float(number) * 1024 ** (_UNITS.index(unit) + 1 if unit else 0))


def show(size_bytes: int) -> str:
    """The size in its largest unit, with two digits, as the command prints it: ``3.22 GiB``."""
    for unit, power in (("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes >= 1024**power:
            return f"{size_bytes / 1024**power:.2f} {unit}"
    return f"{size_bytes} B"
