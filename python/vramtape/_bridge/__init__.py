"""The C++ class that puts vramtape behind PyTorch's own allocator interface, built for the torch that runs.

:func:`library` gives the built file: one that was made beforehand, one of an earlier run, or one compiled now.
"""

from __future__ import annotations

from .build import BuildFailed, library

__all__ = ["BuildFailed", "library"]
