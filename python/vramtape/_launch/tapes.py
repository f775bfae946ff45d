"""Which tapes a run writes: a name of its own for each process, and one line at the end that says where they are.

Processes may end in any order and without a word. So each that has torch writes into a file of the run what its tape
would be called, and the first Python of the run, which made the file, looks at its end which of those are there.
"""

from __future__ import annotations

import glob
import os
import sys
import time

from .. import _runtime

# `quiet` keeps a run from saying anything but errors.
RUN = "VRAMTAPE_RUN"
FIRST = "VRAMTAPE_RUN_FIRST"
_NAMES = "VRAMTAPE_RUN_NAMES"
_SHOWN_MAX = 4
_ABANDONED_SECONDS = 24 * 60 * 60


def is_first() -> bool:
    """Whether this process is the one that began."""
    return os.environ.get(FIRST) == str(os.getpid())


def name_apart() -> None:
    """Gives a child's tape a name of its own, where only one process can have the one that was asked for."""
    conf = _runtime.answer("conf")
    tape = conf["tape"]
    if conf["record"] != "file" or "{pid}" in tape or ("{rank}" in tape and "RANK" in os.environ):
        return
    stem, suffix = os.path.splitext(tape)
    rank = "" if "{rank}" in tape else "-{rank}"
    os.environ["VRAMTAPE_CONF"] = _runtime.text("conf_with", f"tape:{quoted(f'{stem}{rank}-{{pid}}{suffix}')}")


def quoted(value: str) -> str:
    """A value of ``VRAMTAPE_CONF`` in which anything may stand."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def enter() -> None:
    """Notes what this process's tape is called, if it comes to write one. The rank may be known only later."""
    conf = _runtime.answer("conf")
    if conf["record"] != "file" or _NAMES not in os.environ:
        return
    name = glob.escape(os.path.abspath(conf["tape"])).replace("{pid}", str(os.getpid()))
    for any_of in ("{rank}", "{device}"):
        name = name.replace(any_of, "*")
    try:
        # Not made anew: it is gone when the run has ended.
        names = os.open(os.environ[_NAMES], os.O_WRONLY | os.O_APPEND)
        with open(names, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(name + "\n")  # One short write: others may be writing too.
    except OSError:
        pass  # The run has ended, and nobody is left to tell.


def remove_abandoned(folder: str) -> None:
    """Removes from ``folder`` what runs left there whose first process was killed, for nobody reads it any more.

    A process that this one cannot see, in another container, looks as dead as those: its file is let be for a day.
    """
    for path in glob.glob(os.path.join(glob.escape(folder), "vramtape-run-*-*")):
        first = os.path.basename(path).split("-")[2]
        try:
            status = os.stat(path)
            is_ours = status.st_uid == os.getuid() and first.isdigit()
            if is_ours and time.time() - status.st_mtime > _ABANDONED_SECONDS and not _is_alive(int(first)):
                os.remove(path)
        except OSError:
            pass  # Somebody else has just removed it.


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def say(text: str, is_important: bool = False) -> None:
    """One line to whoever started the run."""
    if is_important or os.environ.get(RUN) != "quiet":
        try:
            print(f"vramtape: {text}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # Standard error is closed.


def end(pid: int, started: float, folder: str) -> None:
    """Says where the tapes are of what began at ``started`` (Unix time) in ``folder``, at the end of that process."""
    if os.getpid() != pid:
        return  # A forked child that ends as programs do.
    names = os.environ.pop(_NAMES, None)
    if names is None:
        return
    try:
        with open(names, encoding="utf-8", errors="surrogateescape") as lines:
            patterns = sorted(set(lines.read().splitlines()))
        os.remove(names)
    except OSError:
        return
    found = {path for pattern in patterns for path in glob.glob(pattern) if os.stat(path).st_mtime >= started - 1}
    if not found:
        say(f"no tape: {_why_none()}")
        return
    shown = [os.path.relpath(path, folder) if path.startswith(folder + os.sep) else path for path in sorted(found)]
    if len(shown) == 1:
        say(f"the tape is {shown[0]}")
    elif len(shown) <= _SHOWN_MAX:
        say(f"the {len(shown)} tapes are {', '.join(shown)}")
    else:
        say(f"the {len(shown)} tapes are {shown[0]} to {shown[-1]}")


def _why_none() -> str:
    try:
        record = _runtime.answer("conf")["record"]
    except RuntimeError as error:  # The program has changed it.
        return str(error)
    if record != "file":
        return f"VRAMTAPE_CONF says record:{record}"
    return "nothing was allocated on a GPU" if "torch" in sys.modules else "the program did not import torch"
