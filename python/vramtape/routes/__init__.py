"""The integration routes, a module each: ``activate()`` activates the route or raises :class:`Unavailable`.

It returns a description of the parts that are missing all the same, or None.

``bridge``: PyTorch's allocator is a C++ class over ours, and everything under ``torch.cuda`` works natively.
``pluggable``: PyTorch's pluggable allocator, with the entry points of ``torch._C`` that it lacks filled in.
``observe``: PyTorch's own allocator stays, and vramtape records what it does.
"""

from __future__ import annotations

# Routes that replace the allocator, the best first; `auto` takes the first that is available.
REPLACING = ("bridge", "pluggable")
ALL = (*REPLACING, "observe")


class Unavailable(RuntimeError):
    """A route that is unavailable here; the text says why, and what would have to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
