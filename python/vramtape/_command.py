"""The ``vramtape`` command: the same as the program of that name."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from ._library import load, strings


def main() -> NoReturn:
    """Runs the command line and ends the process with its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for the end of the command.
    arguments = strings(["vramtape", *sys.argv[1:]])
    sys.exit(load().vramtape_lab_command(arguments, len(arguments)))
