"""Entry points of ``torch._C`` that PyTorch lacks under a pluggable allocator, implemented by vramtape's core.

Replacing them there keeps torch's own Python over them, with its formatting, and reaches names that were bound early.
Each module here has ``entry_points(torch)``, the replacements of one group by name; those that the torch at hand does
not have are left out.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from .._rebind import rebind
from . import cache, checkpoints, history, limits, observers, pools, settings, snapshot, statistics

GROUPS = (statistics, snapshot, history, observers, limits, cache, settings, pools, checkpoints)


def apply(torch: ModuleType) -> None:
    """Replaces the entry points of this torch, once and for good: an allocator cannot be taken out again."""
    replaced: dict[int, Any] = {}
    keep = []  # The originals have to outlive the search, or their ids name something else.
    for group in GROUPS:
        for name, function in group.entry_points(torch).items():
            original = getattr(torch._C, name, None)
            if original is None:
                continue
            keep.append(original)
            replaced[id(original)] = _named(function, name)
            setattr(torch._C, name, function)
    keep.extend(pools.replace_class(torch, replaced))
    rebind(replaced)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under the name of what it replaces: tracebacks and help() show that."""
    function.__name__ = function.__qualname__ = name
    return function
