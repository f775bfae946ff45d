"""The memory of the devices while a test runs."""

from __future__ import annotations

import gc
import sys
from typing import Any, NamedTuple

from .._profile import _Block


class Usage(NamedTuple):
    """One device during one test."""

    device: int
    start_allocated_bytes: int
    peak_allocated_bytes: int
    start_reserved_bytes: int
    peak_reserved_bytes: int
    # Records of the test that its ring had no room for.
    lost: int
    # `holders` of `vramtape info --json`.
    holders: dict[str, Any]

    @property
    def grown_bytes(self) -> int:
        """The peak of allocated memory above the memory at the start."""
        return self.peak_allocated_bytes - self.start_allocated_bytes

    @property
    def reserved_bytes(self) -> int:
        """The same of reserved memory."""
        return self.peak_reserved_bytes - self.start_reserved_bytes


class Recording:
    """The records from its construction on."""

    def __init__(self) -> None:
        self._block = _Block(None)

    def usages(self) -> list[Usage]:
        """The devices that recorded anything.

        :raises RuntimeError: if the records cannot be read
        """
        if self._block.is_empty():
            return []
        self._block.end()
        return [_usage(one) for one in self._block.devices()]


def _usage(one: dict[str, Any]) -> Usage:
    return Usage(
        one["id"],
        one["start_allocated_bytes"],
        one["peak_allocated_bytes"],
        one["start_reserved_bytes"],
        one["peak_reserved_bytes"],
        one["lost"],
        one["holders"],
    )


def settle(empties_cache: bool = False) -> None:
    """Frees unreachable memory, so that a test's numbers do not depend on the tests before it.

    It is garbage in cycles, and the workspaces that cuBLAS keeps until the end.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    clear_workspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear_workspaces is not None:
        clear_workspaces()
    if empties_cache:
        torch.cuda.empty_cache()


def allocated() -> dict[int, int]:
    """Bytes of the live blocks of each device."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {device: torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count())}
