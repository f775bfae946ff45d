"""Which tapes a run writes: a name of its own for each process, and one line at the end that says where they are.

Processes end in any order, and some are killed. So each that opens a tape adds its path to a file of the run, and the
first Python of the run, which made the file, prints at its end which of those tapes are there.
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
_is_said = False
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


def note(tape: str) -> None:
    """Notes the path of a tape that Python wrote; the library does it for its own when it opens them."""
    if _NAMES not in os.environ:
        return
    try:
        # Not made anew: it is gone when the run has ended.
        names = os.open(os.environ[_NAMES], os.O_WRONLY | os.O_APPEND)
        with open(names, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(os.path.abspath(tape) + "\n")  # One short write: others may be writing too.
    except OSError:
        pass  # The run has ended, and its last line is printed.


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


def say_why_none(text: str) -> None:
    """The same, for a run that will have no tape: its end needs no line of its own then."""
    global _is_said
    _is_said = True
    say(text)


def end(pid: int, folder: str) -> None:
    """Says where the tapes are of what began in ``folder``, at the end of that process."""
    if os.getpid() != pid:
        return  # A forked child that ends as programs do.
    names = os.environ.pop(_NAMES, None)
    if names is None:
        return
    try:
        with open(names, encoding="utf-8", errors="surrogateescape") as lines:
            noted = set(lines.read().splitlines())
        os.remove(names)
    except OSError:
        return
    found = {path for path in noted if os.path.exists(path)}
    if not found and not _is_said:
        say(f"no tape: {_why_none()}")
    if not found:
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
