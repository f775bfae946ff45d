"""The end of a process that recorded into its rings only: they stay for ``vramtape recover``, and one line says so."""

from __future__ import annotations

import atexit
import os

from . import _oom_dump, _runtime
from ._launch import tapes

# As many as PyTorch has devices for.
_DEVICES_MAX = 128


def watch() -> None:
    """Registers it for the end of this process, if no tape is written."""
    if _runtime.answer("conf")["record"] == "ring":
        atexit.register(_keep, os.getpid())


def forget() -> None:
    """Takes it back: the rings go with the process."""
    atexit.unregister(_keep)


def _keep(pid: int) -> None:
    if os.getpid() != pid:
        return  # A forked child: the rings are its parent's.
    library = _runtime.load()
    if not any(library.vramtape_ring_position(device) for device in range(_DEVICES_MAX)):
        return
    is_kept = library.vramtape_keep_rings() > 0
    is_launched = tapes.FIRST in os.environ
    if os.environ.get("LOCAL_RANK", "0") != "0" or (is_launched and not tapes.is_first()):
        return  # One line for a job.
    what = "no tape: the ring was the only record"
    if _oom_dump.saved is not None:
        what = f"{_oom_dump.saved} has the first out of memory; the ring was the only record of the rest"
    now = (
        f"`vramtape recover {pid} -o run.vtape` makes a tape of it"
        if is_kept
        else "it was in the process's memory and is gone"
    )
    advice = "leave out record:ring" if is_launched else 'pass tape="run.vtape" to install() or observe()'
    tapes.say_why_none(f"{what}; {now}. Next time, {advice}")
