"""The command line of ``vramtape run`` and ``vramtape record``."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Optional

from .. import _runtime, _tape
from .._query import Error
from .._text import Parser
from ..routes import ALL
from . import simulated, tapes
from .program import command_line

HOOK = Path(__file__).with_name("hook")
# Which code holds the memory, where the settings say nothing about stacks: docs/settings.md has the cost.
_STACKS = "stacks_every:1MiB"
_ABOUT = {
    "run": "Runs a Python program with vramtape as PyTorch's allocator, and writes a tape for each process.",
    "record": "Runs a Python program with PyTorch's own allocator, and writes a tape for each process.",
}
_MORE = """PROGRAM is a script, as for python; or an executable file such as venv/bin/python or ./train.sh, or a command
on PATH such as torchrun, which are started as they are. The Pythons that they start are followed through the
environment: an `env` that drops PYTHONPATH and `python -I` are not."""
# The errors of a program that cannot be started.
NOT_STARTED = (Error, ImportError, OSError, RuntimeError, ValueError)
# The options that take the next word.
_WITH_VALUE = ("--route", "--conf", "-o", "--output")


def main(verb: str, arguments: Sequence[str]) -> NoReturn:
    """Becomes the program, or ends with 2 and says why it cannot be started."""
    parser = _parser(verb)
    options = parser.parse_args(simulated.spell_out(arguments, _WITH_VALUE))
    command = program(parser, options)
    try:
        change_environment(verb, options)
    except NOT_STARTED as error:
        parser.error(str(error))
    restore_signals()
    try:
        os.execv(command[0], command)
    except OSError as error:
        parser.error(f"cannot start {command[0]}: {error.strerror}")


def restore_signals() -> None:
    """Undoes what Python ignores: a program that is started does not expect it."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"vramtape {verb}",
        usage=f"vramtape {verb} [OPTIONS] PROGRAM ARGS...\n       vramtape {verb} [OPTIONS] -m MODULE ARGS...",
        description=_ABOUT[verb],
        epilog=_MORE,
        allow_abbrev=False,
    )
    if verb == "run":
        routes = ["auto", *ALL]
        parser.add_argument("--route", choices=routes, help="the way into PyTorch (docs/settings.md); auto if left out")
    parser.add_argument("--conf", metavar="SETTINGS", default="", help="changes to VRAMTAPE_CONF: key:value,key:value")
    parser.add_argument(
        "-o",
        "--output",
        metavar="TAPE",
        help="the tape, in which {rank}, {pid} and {device} are filled in; children's have a name of their own",
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace a tape that exists; nothing else")
    parser.add_argument(
        "--sim",
        metavar="GPU",
        nargs="?",
        help="simulate a GPU, as --sim or --sim=h100 (a name of `vramtape fit --gpu list`, or a size such as 24GiB)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing at the end")
    add_program(parser)
    return parser


def add_program(parser: argparse.ArgumentParser) -> None:
    """Adds the program and its arguments, which end a command line."""
    what = parser.add_mutually_exclusive_group()
    rest = argparse.REMAINDER
    what.add_argument("-m", dest="module", metavar="MODULE", nargs=rest, help="run a module, as python -m")
    what.add_argument("-c", dest="code", metavar="CODE", nargs=rest, help="run a text, as python -c")
    parser.add_argument("program", metavar="PROGRAM", nargs=rest, help=argparse.SUPPRESS)


def program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """The command line of the program, from the words that :func:`add_program` has read."""
    python = [sys.executable, *_interpreter_flags(parser)]
    if options.module is not None or options.code is not None:
        flag, rest = ("-m", options.module) if options.module is not None else ("-c", options.code)
        if not rest:
            parser.error(f"{flag} needs the {'module' if flag == '-m' else 'text'} to run")
        return [*python, flag, *rest]
    rest = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not rest:
        parser.error("name the program to run: a script, -m MODULE, or a command such as torchrun")
    try:
        return command_line(rest, python)
    except (OSError, ValueError) as error:
        parser.error(str(error))


def _interpreter_flags(parser: argparse.ArgumentParser) -> list[str]:
    """The flags that this Python was started with (``python -W error -m vramtape run``) are meant for the program."""
    if sys.flags.ignore_environment:
        parser.error("python -I and -E ignore the environment, through which vramtape reaches a program: leave it out")
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    is_unbuffered = getattr(sys.stdout, "write_through", False) and "PYTHONUNBUFFERED" not in os.environ
    return [*flags, "-u"] if is_unbuffered else flags


def change_environment(verb: str, options: argparse.Namespace) -> None:
    """A tape is written unless the settings say where events go; flags come before settings.

    :raises: one of :data:`NOT_STARTED`
    """
    written = os.environ.get("VRAMTAPE_CONF", "")
    os.environ["VRAMTAPE_CONF"] = "record:file"
    _change(written)
    _change(options.conf)
    if options.output is not None:
        _change(f"record:file,tape:{tapes.quoted(options.output)}")
    if options.force:
        _change("tape_replace:True")
    route: Optional[str] = "observe" if verb == "record" else options.route
    if route is not None:
        _change(f"route:{route}")
    os.environ[tapes.RUN] = "quiet" if options.quiet else "1"
    _sample_stacks()
    _choose_tape()
    if options.sim is not None:
        tapes.say(simulated.prepare(options.sim))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOOK), before] if before else [str(HOOK)])
    os.environ.pop(tapes.FIRST, None)  # A run within a run is one of its own.


def _sample_stacks() -> None:
    """A tape says which code holds the memory, unless the settings say otherwise about stacks."""
    names_stacks = re.search(r"(^|,)\s*stacks(_every|_native)?\s*:", os.environ["VRAMTAPE_CONF"])
    if _runtime.answer("conf")["record"] == "file" and not names_stacks:
        _change(_STACKS)


def _choose_tape() -> None:
    """The tape lies where the run was started, wherever a process goes; one that is there already keeps its name."""
    conf = _runtime.answer("conf")
    if conf["record"] != "file":
        return
    asked = os.path.abspath(conf["tape"])
    _tape.check_place(asked, conf["tape_replace"])
    tape = asked if conf["tape_replace"] else _tape.free_name(asked)
    if tape != asked:
        tapes.say(f"the tape goes to {os.path.relpath(tape)}: {os.path.basename(asked)} exists (-f replaces it)")
    _change(f"tape:{tapes.quoted(tape)}")


def _change(changes: str) -> None:
    os.environ["VRAMTAPE_CONF"] = _runtime.text("conf_with", changes)
