"""The level of guesses that a user selects. Imports no torch, so that a dry run checks it before it begins."""

from __future__ import annotations

import os

VARIABLE = "VRAMTAPE_VALUES"
LIKELY, LOW, HIGH, OFF = _LEVELS = ("likely", "low", "high", "off")


def level() -> str:
    """The level in the environment.

    :raises ValueError: for a word that is no level
    """
    word = os.environ.get(VARIABLE) or _LEVELS[0]
    if word not in _LEVELS:
        raise ValueError(f"{VARIABLE}={word}: write {', '.join(_LEVELS[:-1])} or {OFF}")
    return word
