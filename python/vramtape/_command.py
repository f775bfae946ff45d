"""The ``vramtape`` command: the same as the program of that name, and the verbs that need the Python package."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import NoReturn

from ._library import load, strings

# The verbs of the package, which `vramtape --help` lists (cli/src/package.rs), and the module of each.
VERBS = {"run": "_launch.run", "record": "_launch.run", "doctor": "_doctor", "dry-run": "_dry_run.command"}


def main() -> NoReturn:
    """Runs the command line and ends the process with its exit code."""
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in VERBS:
        importlib.import_module(f".{VERBS[verb]}", __package__).main(verb, sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for the end of the command.
    arguments = strings(["vramtape", *sys.argv[1:]])
    sys.exit(load().vramtape_lab_command(arguments, len(arguments)))
