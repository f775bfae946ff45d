"""vramtape: an allocator for PyTorch's GPU memory that records every allocation, and replays of the records.

>>> import vramtape
>>> vramtape.install()  # Before CUDA is used; or start with ``python -m vramtape run train.py``.

>>> vramtape.replay("run.vtape", config="expandable_segments:True")["peak_reserved_bytes"]

Importing this package starts nothing and does not import torch; each name is loaded when it is first used.

The verbs of the replay lab (``compare`` to ``waste``; ``import_run`` is ``vramtape import``) take a run by its path and
return what the command's ``--json`` prints, as a plain dict. None keeps anything: they can be pickled and mapped over
many runs, by ``multiprocessing``, Ray or Dask. While one works, Python's lock is free, so several threads may ask at
once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._dry_run.command import dry_run
    from ._install import InstallError, NoCuda, active_route, install, observe
    from ._lab import (
        compare,
        diff,
        edit,
        explain,
        export,
        fit,
        import_run,
        info,
        leaks,
        recover,
        replay,
        report,
        tune,
        verify,
        view,
        waste,
    )
    from ._profile import profile
    from ._query import Error
    from .marks import mark, step
    from .monitor import (
        Monitor,
        format_memory_stats,
        get_memory_stats,
        get_memory_utilization,
        reset_peak_memory,
    )

# Each public name and its module.
_MODULES = {
    "_query": ("Error",),
    "_dry_run.command": ("dry_run",),
    "_install": ("InstallError", "NoCuda", "active_route", "install", "observe"),
    "_lab": (
        "compare",
        "diff",
        "edit",
        "explain",
        "export",
        "fit",
        "import_run",
        "info",
        "leaks",
        "pack",
        "plan",
        "recover",
        "replay",
        "report",
        "tune",
        "verify",
        "view",
        "waste",
    ),
    "_profile": ("profile",),
    "marks": ("mark", "step"),
    "monitor": (
        "Monitor",
        "format_memory_stats",
        "get_memory_stats",
        "get_memory_utilization",
        "reset_peak_memory",
    ),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # Written out for type checkers; a test compares it with the above.
    "Error",
    "InstallError",
    "Monitor",
    "NoCuda",
    "active_route",
    "compare",
    "diff",
    "dry_run",
    "edit",
    "explain",
    "export",
    "fit",
    "format_memory_stats",
    "get_memory_stats",
    "get_memory_utilization",
    "import_run",
    "info",
    "install",
    "leaks",
    "mark",
    "observe",
    "pack",
    "plan",
    "profile",
    "recover",
    "replay",
    "report",
    "reset_peak_memory",
    "step",
    "tune",
    "verify",
    "view",
    "waste",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
