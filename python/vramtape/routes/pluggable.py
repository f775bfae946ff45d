"""The route through ``torch.cuda.memory.CUDAPluggableAllocator``: our two functions, and every hook that torch has.

What torch refuses to do under a pluggable allocator is filled in by :mod:`vramtape._patches`.
"""

from __future__ import annotations

from typing import Any

from .. import _patches, _runtime

# Methods of `torch._C._cuda_CUDAAllocator`, and the export that each is given.
_HOOKS = {
    "set_init_fn": "init",
    "set_reset_fn": "empty_cache",
    "set_memory_fraction_fn": "set_memory_fraction",
    "set_base_alloc_fn": "base_alloc",
    "set_record_stream_fn": "record_stream",
    "set_begin_allocate_to_pool": "begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "end_allocate_to_pool",
    "set_release_pool": "release_pool",
}
# The object that torch was given: it must live as long as the process.
_allocator: Any = None


def activate() -> None:
    """Makes vramtape PyTorch's allocator in this process.

    :raises RuntimeError: PyTorch's own, when its allocator was used already
    """
    global _allocator
    import torch

    memory = torch.cuda.memory
    _runtime.load()
    path = str(_runtime.path())
    allocator = memory.CUDAPluggableAllocator(path, "vramtape_malloc_switched", "vramtape_free_switched")
    hooks = allocator.allocator()
    for method, export in _HOOKS.items():
        getattr(hooks, method)(_runtime.address(export))
    _runtime.call("without_hooks")  # None is missing.
    memory.change_current_allocator(allocator)
    _allocator = allocator
    _patches.apply(torch)
