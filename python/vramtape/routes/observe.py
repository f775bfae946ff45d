"""The route that replaces nothing: PyTorch's own allocator stays, and every entry of its trace goes to the ring and the
tape as if our allocator had acted.

A tracker in C++ receives the entries, with PyTorch's lock and without Python's. The trace has no entries for calls that
empty the cache, limit it, reset statistics or change settings: these are recorded by wrappers of the entry points of
``torch._C``, whose results do not change.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Optional

from .. import _runtime, _text
from .._bridge import BuildFailed, library
from . import _history

# PyTorch's default pool, which stands for everything.
_ALL = (0, 0)
# Entry points of `torch._C` that torch may have, the export that is called after them, and its arguments besides
# theirs.
_RECORDED_AFTERWARDS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("_cuda_setMemoryFraction", "observe_memory_fraction", ()),
    ("_cuda_resetPeakMemoryStats", "observe_reset", (True,)),
    ("_accelerator_resetPeakStats", "observe_reset", (True,)),
    ("_cuda_resetAccumulatedMemoryStats", "observe_reset", (False,)),
    ("_accelerator_resetAccumulatedStats", "observe_reset", (False,)),
    ("_accelerator_setAllocatorSettings", "set_settings", ()),
    ("_cuda_cudaCachingAllocator_set_allocator_settings", "set_settings", ()),
)


def activate() -> Optional[str]:
    """Observes PyTorch's allocator from here on, or from the moment on when CUDA is initialised.

    Without the tracker PyTorch's own history is read at the end, for a tape; the text says so.

    :raises vramtape.routes.Unavailable: when the tracker cannot be built or loaded here, and no tape is wanted
    """
    import torch

    _runtime.load()
    try:
        bridge = ctypes.CDLL(str(library(torch)))
    except (BuildFailed, OSError) as error:
        return _history.begin(torch, str(error))
    bridge.vramtape_bridge_observe.restype = ctypes.c_char_p
    # Not here: initialising CUDA is the program's to decide, and a process that did cannot fork and use it.
    torch.cuda._lazy_call(lambda: _attach(bridge, torch._C))
    return None


def _attach(bridge: ctypes.CDLL, c: Any) -> None:
    refusal = bridge.vramtape_bridge_observe()
    if refusal is not None:  # Not a reason to end the program.
        _text.warn(f"vramtape records nothing: {refusal.decode(errors='replace')}", stacklevel=2)
        return
    for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
        _wrap(c, name, _around_empty_cache)
    for name, export, more in _RECORDED_AFTERWARDS:
        _wrap(c, name, functools.partial(_then, export=export, more=more))


def _wrap(c: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts what ``make`` gives in the place of an entry point, where this torch has it."""
    call = getattr(c, name, None)
    if call is not None:
        setattr(c, name, functools.wraps(call)(make(call)))


def _around_empty_cache(call: Callable[..., Any]) -> Callable[..., Any]:
    def empty_cache(*arguments: Any) -> Any:
        _runtime.call("observe_empty_cache", *_ALL, True)
        try:
            return call(*arguments)
        finally:
            _runtime.call("observe_empty_cache", *_ALL, False)

    return empty_cache


def _then(call: Callable[..., Any], export: str, more: tuple[Any, ...]) -> Callable[..., Any]:
    def recorded(*arguments: Any) -> Any:
        answer = call(*arguments)
        try:
            _runtime.call(export, *arguments, *more)
        except RuntimeError as error:  # PyTorch did what was asked; the tape does not have it.
            _text.warn(f"vramtape did not record that: {error}", stacklevel=2)
        return answer

    return recorded
