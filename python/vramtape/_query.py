"""One query to the lab, from its start to its answer."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from . import _text
from ._library import Text, load, strings

Progress = Union[bool, Callable[[int, int], object], None]

# Often enough for a bar and for Ctrl-C, which Python sees between two looks.
LOOK_EVERY_MS = 50
# A bar is for work that takes longer.
BAR_AFTER_S = 1.0


class Error(RuntimeError):
    """A run that cannot be read or replayed, or a query that makes no sense; the text says what to do."""

    __module__ = "vramtape"


def query(arguments: Sequence[Text], threads: Optional[int], progress: Progress) -> dict[str, Any]:
    """Runs a command line of the lab and returns its JSON. Where ``progress`` raises, the work is given up."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least 1, or None for one a core")
    library, encoded = load(), strings(arguments)
    watch = _Bar() if progress is True else progress or None
    done, total = ctypes.c_uint64(), ctypes.c_uint64()
    seen = ctypes.byref(done), ctypes.byref(total)
    handle = None
    try:
        handle = library.vramtape_lab_ask(encoded, len(encoded), threads or 0)
        if not handle:
            raise Error("cannot start a thread: too many are running")
        # ctypes gives Python's lock back during the call.
        while not library.vramtape_lab_wait(handle, LOOK_EVERY_MS, *seen):
            if watch and total.value:
                watch(done.value, total.value)
        if watch and total.value:
            watch(total.value, total.value)
        reply = json.loads(library.vramtape_lab_reply(handle))
    finally:
        if isinstance(watch, _Bar):
            watch.close()
        if handle:
            library.vramtape_lab_close(handle)
    for text in reply["warnings"]:
        _text.warn(text, stacklevel=3)  # At the line that called the verb.
    if reply["error"] is not None:
        raise Error(_text.visible(reply["error"]))
    answer: dict[str, Any] = json.loads(reply["answer"])
    return answer


class _Bar:
    """A line on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.is_shown = False

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self.started > BAR_AFTER_S:
            self.is_shown = True
            filled = "█" * (32 * done // total)
            print(f"\r{filled:░<32} {100 * done // total:3} %", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
