"""Switching the cache off and on, and allocation without tensors, with PyTorch's errors; the rest our hooks do."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, Callable

from .. import _runtime


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""
    raw_delete = torch._C._cuda_cudaCachingAllocator_raw_delete

    def delete(mem_ptr: int, /) -> None:
        if mem_ptr == 0:
            return
        try:
            raw_delete(mem_ptr)
        except RuntimeError as error:
            if "not allocated here" not in str(error):
                raise
            raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}") from None

    # Whatever it says, as PyTorch's own allocator takes it.
    never_caches = "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ

    def enable(value: bool, /) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"cudaCachingAllocator_enable expects a bool, but got {type(value).__name__}")
        _runtime.call("set_caching", value and not never_caches)

    def is_enabled() -> bool:
        is_caching: bool = _runtime.call("is_caching")
        return is_caching

    enable(True)
    return {
        "_cuda_cudaCachingAllocator_raw_delete": delete,
        "_cuda_cudaCachingAllocator_enable": enable,
        "_cuda_cudaCachingAllocator_is_enabled": is_enabled,
    }
