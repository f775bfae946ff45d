"""The ways to be in a PyTorch process, a module each: ``activate()`` takes the way or says why it cannot be had.

What it returns, if anything, says what is lacking all the same.

``bridge``: PyTorch's allocator is a C++ class over ours, and everything under ``torch.cuda`` works natively.
``pluggable``: PyTorch's pluggable allocator, with the entry points of ``torch._C`` that it lacks filled in.
``observe``: PyTorch's own allocator stays, and vramtape records what it does.
"""

from __future__ import annotations

# What replaces the allocator, the best first; `auto` takes the first that can be had.
REPLACING = ("bridge", "pluggable")
ALL = (*REPLACING, "observe")


class Unavailable(RuntimeError):
    """A route that cannot be had here; the text says why, and what would have to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
