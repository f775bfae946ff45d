"""Observers of out of memory."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any, Callable

from .. import _runtime

_OBSERVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
# The library calls them as long as the process lives.
_observers: list[Any] = []


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""

    def attach(observer: Callable[[int, int, int, int], Any], /) -> None:
        def observe(_user: Any, device: int, size: int, allowed: int, free: int) -> None:
            # An exception that passes is shown on stderr (sys.unraisablehook) and goes no further: the one of the
            # allocation follows. It cannot pass the library's frames.
            observer(device, size, allowed, free)

        callback = _OBSERVER(observe)
        _observers.append(callback)
        _runtime.call("add_oom_observer", callback, None)

    return {"_cuda_attach_out_of_memory_observer": attach}
