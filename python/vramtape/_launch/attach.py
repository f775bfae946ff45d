"""Attaches vramtape to a process of a run when it imports torch."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from typing import NoReturn

from .. import _install, _runtime
from .._dry_run import absent, process
from . import tapes


def before_torch() -> None:
    """The simulated driver, if one is named, has to be there first."""
    try:
        _runtime.use_simcuda()
    except ImportError as error:
        _give_up(str(error))


def after_torch() -> None:
    """Installs vramtape as ``VRAMTAPE_CONF`` says.

    Where there is no GPU the program goes on as it would have. Where vramtape cannot be in it for another reason, the
    first process of the run ends, for nothing of what was asked for would happen; a child says so and goes on.
    """
    try:
        if not tapes.is_first():
            tapes.name_apart()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="vramtape took the route")
            _install.install()
    except _install.NoCuda as error:
        if tapes.is_first():
            tapes.say_why_none(f"{error}; the program runs without vramtape")
    except (_install.InstallError, ImportError) as error:
        if tapes.is_first():
            _give_up(str(error))
        tapes.say(f"process {os.getpid()} runs without vramtape: {error}", is_important=True)
    else:
        if _install.note() and tapes.is_first():
            tapes.say(_install.note())
        atexit.register(tapes.leave)
        absent.begin_if_dry_run()
        try:
            process.begin_if_dry_run()
        except ValueError as error:
            _give_up(str(error))


def _give_up(reason: str) -> NoReturn:
    """Not an ImportError, which many a program takes for a torch that is not installed."""
    tapes.say(reason, is_important=True)
    sys.exit(2)
