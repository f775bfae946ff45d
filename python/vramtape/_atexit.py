"""The end of the process: what its tapes say about it, and the ends at which the library is not called.

At ``exit`` the library finishes tapes and removes rings by itself, and after SIGTERM and SIGHUP a thread of it does.
But Python ends by a signal after Ctrl-C, and a worker that multiprocessing forked by ``os._exit``.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import traceback
from multiprocessing import util
from typing import Any

from . import _runtime

_DETAIL_MAX = 300
# What PyTorch raises where the driver refuses memory other than its own allocator's: pinned host memory, for one. The
# words do not say which, but the code that raised it often does.
_REFUSED = "CUDA error: out of memory"


def watch() -> None:
    """Begins in this process and in the workers that it forks."""
    torch = sys.modules["torch"]
    versions = {"torch_version": str(torch.__version__), "cuda_version": torch.version.cuda}
    _describe(**versions, command=list(getattr(sys, "orig_argv", sys.argv)))
    _runtime.call("watch_signals")
    atexit.register(_after_interrupt)
    util.register_after_fork(_runtime, _in_worker)


def watch_exception() -> None:
    """Notes the exception that ends the program, before anything that is registered by now reads it."""
    atexit.register(_note_exception)


def _after_interrupt() -> None:
    # At any other end more may be freed than what the tape would have then.
    if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
        _finish()


def _note_exception() -> None:
    # Set where the program did not catch the exception; at a prompt (ps1) they do not end it.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    kind = getattr(sys, "last_type", None)
    if kind is None or hasattr(sys, "ps1"):
        return
    if kind is KeyboardInterrupt:
        _describe(end={"kind": "signal", "detail": "SIGINT"})
        return
    out_of_memory = getattr(sys.modules.get("torch"), "OutOfMemoryError", ())
    is_out_of_memory = isinstance(error, out_of_memory)
    _describe(end={"kind": "out_of_memory" if is_out_of_memory else "exception", "detail": _first_line(kind, error)})


def _first_line(kind: type, error: object) -> str:
    """The last line of the traceback, or the first of several."""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:  # A program's own exception may do anything.
        text = ""
    line = text.partition("\n")[0].partition(" GPU ")[0]  # PyTorch's says on that line what the GPU holds.
    if _REFUSED in text:
        # A data loader raises its thread's error again: the first line names the thread.
        line = (line if _REFUSED in line else f"{line} {_REFUSED}") + _raised_at(error)
    return f"{name}: {line}"[:_DETAIL_MAX] if line else name


def _raised_at(error: object) -> str:
    """The innermost line of Python's, as ``; train.py:12: x = torch.empty(n, pin_memory=True)``."""
    calls = traceback.extract_tb(getattr(error, "__traceback__", None))
    return f"; {os.path.basename(calls[-1].filename)}:{calls[-1].lineno}: {calls[-1].line}" if calls else ""


def _describe(**known: Any) -> None:
    text = json.dumps(known, ensure_ascii=False)
    try:
        _runtime.call("describe", text.encode(errors="replace").decode())
    except RuntimeError:
        pass  # The settings were refused, which the next call raises.


def _in_worker(_: object) -> None:
    util.Finalize(None, _finish, exitpriority=-100)  # After those of others, which may still free.


def _finish() -> None:
    _runtime.load().vramtape_finish()
