"""The weights of this process that have sizes only, for the result of the dry run."""

from __future__ import annotations

from typing import Any

from .. import _text
from .._sizes import show

_noted: dict[str, dict[str, Any]] = {}


def note(name: str, source: str, size_bytes: int) -> None:
    """Notes weights whose sizes come from ``source``: a configuration, or the header of a file."""
    if name not in _noted:
        _text.say(f"weights of {name}: {show(size_bytes)} by its {source}; no data is read")
    _noted[name] = {"name": name, "source": source, "size_bytes": size_bytes}


def describe() -> list[dict[str, Any]]:
    """The weights as the description of the process has them."""
    return [_noted[name] for name in sorted(_noted)]
