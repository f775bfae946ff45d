"""The ends of a process at which the library is not asked: tapes are finished and rings removed there too.

At ``exit`` the library sees to it itself. But Python ends by a signal after Ctrl-C, and a worker that multiprocessing
forked by ``os._exit``.
"""

from __future__ import annotations

import atexit
import sys
from multiprocessing import util

from . import _runtime


def watch() -> None:
    """Sees to it in this process and in the workers that it forks."""
    atexit.register(_after_interrupt)
    util.register_after_fork(_runtime, _in_worker)


def _after_interrupt() -> None:
    # Set where nobody caught the exception. At any other end more may be freed than what the tape would have then.
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        _finish()


def _in_worker(_: object) -> None:
    util.Finalize(None, _finish, exitpriority=-100)  # After those of others, which may still free.


def _finish() -> None:
    _runtime.load().vramtape_finish()
