"""Which tapes a run writes: a name of its own for each process, and one line at the end that says where they are.

Processes end in any order, and some are killed. So each that opens a tape adds its path to a list of the run, and the
first Python of the run, which made the list, prints at its end which of those tapes are there. The list is a file
without a name, which the others open through ``/proc``: it is gone when that process ends, however that is.
"""

from __future__ import annotations

import json
import os
import sys

from .. import _runtime, _text

# `quiet` keeps a run from saying anything but errors.
RUN = "VRAMTAPE_RUN"
FIRST = "VRAMTAPE_RUN_FIRST"
_NAMES = "VRAMTAPE_RUN_NAMES"
_SHOWN_MAX = 4
# The first character of a line about a tape that ended early; other lines are absolute paths.
_FAILED = "!"
_is_said = False


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
    if _NAMES in os.environ:
        _note(os.path.abspath(tape))


def leave() -> None:
    """Notes at the end of this process its tapes, for the library cannot where no /proc is mounted, and their ends."""
    for tape in _runtime.answer("tapes"):
        note(tape["path"])
        if tape["failed"]:
            failed = tape["failed"]
            _note(_FAILED + json.dumps([os.path.abspath(tape["path"]), failed["reason"], failed["time"]]))


def begin() -> None:
    """Makes the run's list, in its first process.

    :raises OSError: when there is no memory for it
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("vramtape-run")
    else:  # A Python that was built for an older C library.
        path = f"{os.environ.get('TMPDIR') or '/tmp'}/vramtape-run-{os.getpid()}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.remove(path)
    status = os.fstat(descriptor)
    os.environ[_NAMES] = f"/proc/{os.getpid()}/fd/{descriptor} {status.st_dev} {status.st_ino}"


def _open(flags: int) -> int:
    """The run's list; a program may have closed it, and another file have its number.

    :raises OSError: when it is not there any more
    """
    path, device, inode = os.environ[_NAMES].rsplit(" ", 2)
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
    except OSError:
        if not is_first():
            raise
        descriptor = os.dup(int(path.rpartition("/")[2]))  # No /proc is mounted.
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) != (int(device), int(inode)):
        os.close(descriptor)
        raise FileNotFoundError("the list of this run's tapes was closed")
    return descriptor


def _note(line: str) -> None:
    try:
        descriptor = _open(os.O_WRONLY | os.O_APPEND)
        try:
            os.lseek(descriptor, 0, os.SEEK_END)
            os.write(descriptor, os.fsencode(line + "\n"))  # One short write: others may be writing too.
        finally:
            os.close(descriptor)
    except (KeyError, OSError, ValueError):
        pass  # The run has ended, or the program has another environment.


def _noted() -> list[str]:
    """The lines of the list.

    :raises OSError: as :func:`_open`
    """
    descriptor = _open(os.O_RDONLY)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as lines:
        return sorted(set(lines.read().splitlines()))


def say(text: str, is_important: bool = False) -> None:
    """Prints one line for the user."""
    if is_important or os.environ.get(RUN) != "quiet":
        _text.say(text)


def say_why_none(text: str) -> None:
    """The same, for a run that will have no tape: its end needs no line of its own then."""
    global _is_said
    _is_said = True
    say(text)


def end(pid: int, folder: str) -> None:
    """Prints the paths of the tapes begun in ``folder``, at the end of that process."""
    if os.getpid() != pid:
        return  # A forked child that ends as programs do.
    if _NAMES not in os.environ:
        return
    try:
        noted = _noted()
    except (OSError, ValueError):
        return
    finally:
        del os.environ[_NAMES]
    failed = {}
    for line in noted:
        if line.startswith(_FAILED):
            path, reason, at = json.loads(line[len(_FAILED) :])
            failed[path] = f"ended early, at {at}: {reason}"
    found = [path for path in noted if not path.startswith(_FAILED) and os.path.exists(path)]
    if not found and not _is_said:
        say(f"no tape: {_why_none()}")
    if not found:
        return

    def shown(path: str) -> str:
        name = os.path.relpath(path, folder) if path.startswith(folder + os.sep) else path
        notes = [failed[path]] if path in failed else []
        if os.path.exists(f"{path}.1"):  # `tape_max`: the part before it.
            notes.insert(0, f"its older part is {name}.1, which is read with it")
        return f"{name} ({'; '.join(notes)})" if notes else name

    if len(found) == 1:
        say(f"the tape is {shown(found[0])}")
    elif len(found) <= _SHOWN_MAX:
        say(f"the {len(found)} tapes are {', '.join(map(shown, found))}")
    else:
        early = [path for path in found if path in failed and path not in (found[0], found[-1])]
        more = f"; of these, {', '.join(map(shown, early[:_SHOWN_MAX]))}" if early else ""
        say(f"the {len(found)} tapes are {shown(found[0])} to {shown(found[-1])}{more}")


def _why_none() -> str:
    try:
        record = _runtime.answer("conf")["record"]
    except RuntimeError as error:  # The program has changed it.
        return str(error)
    if record != "file":
        return f"VRAMTAPE_CONF says record:{record}"
    if "torch" not in sys.modules:
        return "the program did not import torch"
    return "nothing was allocated on a GPU, or a warning above says why it could not be written"
