"""Replaces functions in all modules that have imported them by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def replace(functions: dict[Callable[..., Any], Callable[..., Any]]) -> None:
    """Replaces each function by the other one, which takes its name."""
    rebind({id(original): functools.wraps(original)(function) for original, function in functions.items()})


def rebind(replaced: dict[int, Any]) -> None:
    """Replaces objects, by their ``id``, in the imported modules."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for name, value in list(names.items()):
            if id(value) in replaced:
                names[name] = replaced[id(value)]
