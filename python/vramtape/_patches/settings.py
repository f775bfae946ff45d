"""Settings at run time, ``torch._C._accelerator_setAllocatorSettings``: to torch's parser first, then to ours.

Torch keeps those of pinned host memory, and refuses with its own exceptions; ours refuses nothing that torch takes.
"""

from __future__ import annotations

import os
import re
from types import ModuleType
from typing import Any, Callable

from .. import _runtime

_ENVIRONMENT = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# Torch compares it with the allocator's name, which is not "native" now though ours behaves so.
_BACKEND_NATIVE = re.compile(r"\s*backend\s*:\s*native\s*(,|$)")
# Torch's settings of pinned host memory: what a snapshot calls them, and what it shows while they are not set.
_PINNED = {
    "pinned_num_register_threads": ("pinned_num_register_threads", 1),
    "pinned_use_cuda_host_register": ("pinned_use_cuda_host_register", False),
    "pinned_max_round_threshold_mb": ("max_round_threshold", -1),
    "pinned_max_cached_size_mb": ("max_cached_size", -1),
}
_pinned: dict[str, Any] = dict(_PINNED.values())


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""
    _remember_pinned(next(filter(None, map(os.environ.get, _ENVIRONMENT)), ""))

    def setter(name: str) -> Callable[[str], None]:
        original: Any = getattr(torch._C, name, None)

        def set_settings(settings: str) -> None:
            if isinstance(settings, str):
                original(_BACKEND_NATIVE.sub("", settings))
            else:
                original(settings)  # Raises torch's TypeError.
            _runtime.call("set_settings", settings)
            _remember_pinned(settings)

        return set_settings

    names = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")
    return {name: setter(name) for name in names}


def with_pinned(settings: dict[str, Any]) -> dict[str, Any]:
    """The ``allocator_settings`` of a snapshot, their keys in PyTorch's order."""
    ordered = {name: settings[name] for name in _FIRST}
    ordered["pinned_num_register_threads"] = _pinned["pinned_num_register_threads"]
    ordered["release_lock_on_cudamalloc"] = settings["release_lock_on_cudamalloc"]
    ordered["pinned_use_cuda_host_register"] = _pinned["pinned_use_cuda_host_register"]
    ordered["graph_capture_record_stream_reuse"] = settings["graph_capture_record_stream_reuse"]
    ordered["max_round_threshold"] = _pinned["max_round_threshold"]
    ordered["max_cached_size"] = _pinned["max_cached_size"]
    ordered["roundup_power2_divisions"] = settings["roundup_power2_divisions"]
    return ordered


_FIRST = ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size", "garbage_collection_threshold", "expandable_segments")


def _remember_pinned(settings: str) -> None:
    """These stay as they are where settings do not name them."""
    for key, value in re.findall(r"(\w+)\s*:\s*(\w+)", settings):
        if key not in _PINNED:
            continue
        name, default = _PINNED[key]
        if default is False:
            _pinned[name] = value == "True"
        else:
            _pinned[name] = int(value) * (1 << 20 if key.endswith("_mb") else 1)
