"""Text for a terminal: control characters of names are shown as escapes, as ``visible`` of ``trace-format`` does."""

from __future__ import annotations

import argparse
import sys
import unicodedata
import warnings
from typing import Any, Optional

# Bidirectional classes of the characters that make a line look like another one.
_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def visible(text: str) -> str:
    r"""The text with all control characters but line ends and tabs, and those that change the direction of writing, as
    ``\u001b``; bytes of file names that are no text too."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    """The same, without line ends."""
    return visible(text).replace("\n", " ")


def say(line: str) -> None:
    """Prints a line on standard error, if that is open."""
    try:
        print(f"vramtape: {one_line(line)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def warn(text: str, stacklevel: int) -> None:
    """A warning at the caller's caller, as ``warnings.warn`` counts."""
    warnings.warn(visible(text), stacklevel=stacklevel + 1)


class Parser(argparse.ArgumentParser):
    """Its errors quote the command line."""

    def _print_message(self, message: str, file: Optional[Any] = None) -> None:
        super()._print_message(visible(message), file)


def _shown(one: str) -> str:
    is_control = unicodedata.category(one) in ("Cc", "Cs") and one not in "\n\t"
    is_hidden = is_control or unicodedata.bidirectional(one) in _DIRECTIONS
    return f"\\u{ord(one):04x}" if is_hidden else one
