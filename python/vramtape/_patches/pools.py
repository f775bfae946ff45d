"""``torch.cuda.MemPool``: torch's own class asks the allocator for what a pluggable one cannot do; this one does it."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any, Callable, Optional

from .. import _runtime
from .snapshot import segments_of

# Allocators by the functions that `_cuda_customAllocator` made them of, for `MemPool(allocator=...)`.
_functions: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
# Their memory may outlive the pool, so they live as long as the process.
_used: list[Any] = []


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""
    create_allocator = torch._C._cuda_customAllocator

    def custom_allocator(malloc: int, free: int) -> Any:
        allocator = create_allocator(malloc, free)
        _functions[allocator] = (malloc, free)
        return allocator

    def end_with(original: Callable[..., None]) -> Callable[..., None]:
        def end(device: int, pool: tuple[int, int]) -> None:
            _runtime.call("clear_error")
            original(device, pool)  # Its hook cannot raise: PyTorch calls it in destructors too.
            if _runtime.load().vramtape_last_error():
                raise RuntimeError(_runtime.last_error())

        return end

    # The second is that of torch 2.7.
    ends = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")
    replaced = {name: end_with(getattr(torch._C, name)) for name in ends if hasattr(torch._C, name)}
    return {"_cuda_customAllocator": custom_allocator, **replaced}


def replace_class(torch: ModuleType, replaced: dict[int, Any]) -> list[Any]:
    """Puts our ``MemPool`` in the place of torch's; returns the originals, with their successors in `replaced`."""
    memory = torch.cuda.memory
    originals = [memory.MemPool]
    replaced[id(memory.MemPool)] = _make(torch)
    if hasattr(memory, "MemPoolContext"):
        originals.append(memory.MemPoolContext)
        replaced[id(memory.MemPoolContext)] = MemPoolContext
    if hasattr(torch._C._CUDAGraph, "_retain_pool"):
        _retain_in_graphs(torch)
    return originals


def _retain_in_graphs(torch: ModuleType) -> None:
    """Lets graphs hold the pools that were used in their capture, as they do since torch 2.13."""
    graph_class = torch._C._CUDAGraph
    own_pools, own_reset = graph_class.pools, graph_class.reset
    retained: weakref.WeakKeyDictionary[Any, dict[tuple[int, int], Any]] = weakref.WeakKeyDictionary()

    def _retain_pool(graph: Any, pool: tuple[int, int]) -> None:
        held = retained.setdefault(graph, {})
        if pool in held:
            return
        device = torch.cuda.current_device()
        _runtime.call("pool_create", device, *pool)
        held[pool] = weakref.finalize(graph, _runtime.load().vramtape_release_pool, device, *pool)
        held[pool].atexit = False

    def pools(graph: Any) -> list[tuple[int, int]]:
        return [*own_pools(graph), *retained.get(graph, ())]

    def reset(graph: Any) -> None:
        own_reset(graph)
        for release in retained.pop(graph, {}).values():
            release()

    graph_class._retain_pool, graph_class.pools, graph_class.reset = _retain_pool, pools, reset


class MemPoolContext:
    """The pool that is active, of ``torch.cuda.use_mem_pool`` in torch 2.7; from there until this object is gone."""

    _active: Any = None

    def __init__(self, pool: Any) -> None:
        self._before, MemPoolContext._active = MemPoolContext._active, pool

    def __del__(self) -> None:
        MemPoolContext._active = self._before

    @staticmethod
    def active_pool() -> Any:
        """The pool, or None."""
        return MemPoolContext._active


def _make(torch: ModuleType) -> type:
    allocator_class = torch._C._cuda_CUDAAllocator

    class MemPool:
        __doc__ = torch.cuda.memory.MemPool.__doc__

        def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
            if allocator is not None and not isinstance(allocator, allocator_class):
                raise TypeError(f"MemPool(allocator={allocator!r}): expected a torch._C._cuda_CUDAAllocator or None")
            torch.cuda._lazy_init()
            self._device: int = torch.cuda.current_device()
            # From the counter that torch's own pools are numbered by.
            self._id: tuple[int, int] = torch._C._graph_pool_handle()
            _create(self._device, self._id, allocator)
            if use_on_oom:
                _runtime.call("pool_set_use_on_oom", self._device, *self._id, True)
            if no_split:
                _runtime.call("pool_set_no_split", self._device, *self._id)
            self.allocator = allocator
            end = weakref.finalize(self, _release, torch, self._device, self._id, use_on_oom)
            end.atexit = False

        @property
        def id(self) -> tuple[int, int]:
            """Returns the ID of this pool as a tuple of two ints."""
            return self._id

        @property
        def device(self) -> int:
            """Returns the device that the pool was made on."""
            return self._device

        def use_count(self) -> int:
            """Returns the reference count of this pool."""
            count: int = _runtime.call("pool_use_count", self._device, *self._id)
            return count

        def snapshot(self, include_traces: bool = True) -> Any:
            """Returns the pool's segments on all devices, which never had traces with them."""
            return segments_of(self._id)

    MemPool.__module__, MemPool.__qualname__ = "torch.cuda.memory", "MemPool"
    return MemPool


def _create(device: int, pool: tuple[int, int], allocator: Optional[Any]) -> None:
    if allocator is None:
        _runtime.call("pool_create", device, *pool)
        return
    if allocator not in _functions:
        raise RuntimeError(
            "this allocator's functions are unknown to vramtape's pluggable route: make it after vramtape.install() by "
            "torch.cuda.memory.CUDAPluggableAllocator, or install with route='bridge'"
        )
    _used.append(allocator)
    _runtime.call("pool_create_with", device, *pool, *_functions[allocator])


def _release(torch: ModuleType, device: int, pool: tuple[int, int], use_on_oom: bool) -> None:
    """As the destructor of torch's class."""
    if use_on_oom:
        _runtime.call("pool_set_use_on_oom", device, *pool, False)
    _runtime.load().vramtape_release_pool(device, *pool)
    for other in range(torch.cuda.device_count()):
        _runtime.call("pool_empty_cache", other, *pool)
