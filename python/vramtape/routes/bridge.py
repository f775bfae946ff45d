"""Route 2: a C++ class over our core is PyTorch's allocator; everything under ``torch.cuda`` works natively."""

from __future__ import annotations

import ctypes
from typing import Any

from .. import _runtime
from .._bridge import BuildFailed, library
from . import Unavailable


def activate() -> None:
    """Makes the bridge PyTorch's allocator in this process, building it first if need be.

    :raises vramtape.routes.Unavailable: when it cannot be built or loaded here
    :raises RuntimeError: when PyTorch refuses, because its allocator was used already
    """
    import torch

    _runtime.load()
    try:
        built = library(torch)
        bridge = ctypes.CDLL(str(built))
    except (BuildFailed, OSError) as error:
        raise Unavailable(str(error)) from None
    bridge.vramtape_bridge_activate.restype = ctypes.c_char_p
    refusal = bridge.vramtape_bridge_activate()
    if refusal is not None:
        raise RuntimeError(refusal.decode(errors="replace"))
    if not hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        _follow_settings(torch._C)


def _follow_settings(entry_points: Any) -> None:
    """Before 2.9 PyTorch reports new settings to no allocator: the entry point is wrapped instead."""
    name = "_cuda_cudaCachingAllocator_set_allocator_settings"
    torchs = getattr(entry_points, name)

    def set_allocator_settings(settings: str) -> None:
        torchs(settings)
        _runtime.call("set_settings", settings)

    setattr(entry_points, name, set_allocator_settings)
