"""The limits that a test's markers set."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import pytest

from .. import _sizes


class Limits(NamedTuple):
    """Bytes, or None where a test has no such limit."""

    allocated_bytes: Optional[int]
    reserved_bytes: Optional[int]
    leaked_bytes: Optional[int]


def limits(item: pytest.Item) -> Limits:
    """The limits of a test. The marker that is nearest to it counts.

    :raises pytest.UsageError: if a marker cannot be understood
    """
    peak = _arguments(item, "limit_vram", ("limit", "reserved"))
    leaked = _arguments(item, "limit_vram_leaks", ("limit",))
    return Limits(peak.get("limit"), peak.get("reserved"), leaked.get("limit"))


def _arguments(item: pytest.Item, name: str, names: tuple[str, ...]) -> dict[str, int]:
    marker = item.get_closest_marker(name)
    if marker is None:
        return {}
    positional = marker.args[:1]
    given = {**dict(zip(names, positional)), **marker.kwargs}
    unknown = sorted(set(given) - set(names))
    if len(marker.args) > 1 or unknown or not given or (positional and "limit" in marker.kwargs):
        usual = 'limit_vram("4 GiB", reserved="6 GiB")' if len(names) > 1 else 'limit_vram_leaks("1 MiB")'
        raise pytest.UsageError(f"{item.nodeid}: {_shown(marker)}: write it as {usual}")
    return {key: _bytes(item, marker, value) for key, value in given.items()}


def _bytes(item: pytest.Item, marker: pytest.Mark, value: Any) -> int:
    size_bytes = _sizes.parse(value) if isinstance(value, str) else None
    if size_bytes is None:
        raise pytest.UsageError(
            f"{item.nodeid}: {_shown(marker)}: {value!r} is no size; write one as '4 GiB' or '512 MiB'"
        )
    return size_bytes


def _shown(marker: pytest.Mark) -> str:
    words = [repr(one) for one in marker.args] + [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"{marker.name}({', '.join(words)})"
