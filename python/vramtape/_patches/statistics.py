"""Statistics: ``torch.cuda.memory_stats`` and its like, and the same under ``torch.accelerator``."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from .. import _runtime
from .arguments import device_count, device_index

_BY_POOL = "reserved_bytes_by_private_pools"
# Those of `_cuda_memoryStats` that `_accelerator_getDeviceStats` does not have.
_CUDA_ONLY = frozenset({_BY_POOL, "num_oom_rejections"})


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""

    def memory_stats(device: int, /) -> dict[str, Any]:
        return _statistics(device_index(torch, device, "invalid argument to memory_allocated"))

    def reset_peak(device: int, /) -> None:
        _runtime.call("reset_peak_stats", device_index(torch, device, "invalid argument to reset_peak_memory_stats"))

    def reset_accumulated(device: int, /) -> None:
        complaint = "invalid argument to reset_accumulated_memory_stats"
        _runtime.call("reset_accumulated_stats", device_index(torch, device, complaint))

    def accelerator_stats(device: int) -> dict[str, Any]:
        return {name: value for name, value in memory_stats(device).items() if name not in _CUDA_ONLY}

    def is_allocator_initialized() -> bool:
        return device_count(torch) > 0

    def accelerator_empty_cache() -> None:
        torch._C._cuda_emptyCache()

    return {
        "_cuda_memoryStats": memory_stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_accelerator_getDeviceStats": accelerator_stats,
        "_accelerator_resetPeakStats": lambda device: reset_peak(device),
        "_accelerator_resetAccumulatedStats": lambda device: reset_accumulated(device),
        "_accelerator_isAllocatorInitialized": is_allocator_initialized,
        "_accelerator_emptyCache": accelerator_empty_cache,
    }


def _statistics(device: int) -> dict[str, Any]:
    stats: dict[str, Any] = _runtime.answer("stats", device)
    if _BY_POOL in stats:  # JSON has no tuples as keys.
        stats[_BY_POOL] = {_pool_of(key): value for key, value in stats[_BY_POOL].items()}
    return stats


def _pool_of(key: str) -> tuple[int, int]:
    first, second = key.split("_")
    return int(first), int(second)
