"""``VRAMTAPE_CONF`` as the arguments of ``vramtape.install()`` change it. The library reads it once."""

from __future__ import annotations

import os
from typing import Optional

from . import _runtime, _tape

VARIABLE = "VRAMTAPE_CONF"
READ_ONCE = "a process reads its settings once; pass tape= and conf= at the first call"


def changes(tape: Optional[_tape.Path], conf: Optional[str]) -> list[str]:
    """The changes that the arguments stand for.

    :raises ValueError: where no tape can be written
    """
    return [*([conf] if conf else []), *([_tape.setting(tape)] if tape is not None else [])]


def apply(some: list[str]) -> None:
    """Puts the changes into the environment, also for the processes that this one starts.

    :raises RuntimeError: where they are refused, or come too late; nothing is changed then
    """
    if not some:
        return
    before, was = os.environ.get(VARIABLE), _runtime.answer("conf")
    try:
        for change in some:
            os.environ[VARIABLE] = _runtime.text("conf_with", change)
        if was["is_read"] and _runtime.answer("conf")["all"] != was["all"]:
            raise RuntimeError(f"VRAMTAPE_CONF={before or ''!r} is in force already: {READ_ONCE}")
    except RuntimeError:
        restore(before)
        raise


def is_in_force(some: list[str]) -> bool:
    """Whether the settings say this already.

    :raises RuntimeError: where a change is refused
    """
    before, was = os.environ.get(VARIABLE), _runtime.answer("conf")
    try:
        for change in some:
            os.environ[VARIABLE] = _runtime.text("conf_with", change)
        return bool(_runtime.answer("conf")["all"] == was["all"])
    finally:
        restore(before)


def restore(conf: Optional[str]) -> None:
    """Puts back what the environment said before."""
    if conf is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = conf
