"""Where a tape goes: a place that can be written, and a free name where a tape is there already.

The library decides when it opens the tape (``ffi/src/process/tape_name.rs``); this is the same rule for those who want
to say the name beforehand, or write the tape themselves.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator
from typing import Optional, Union

from ._launch import tapes

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# The first bytes of every tape.
_MAGIC = b"\x89VTP\r\n\x1a\n"


def setting(tape: Path) -> str:
    """The change to ``VRAMTAPE_CONF`` that has a tape written there, wherever the process goes meanwhile.

    :raises ValueError: where no tape can be written
    """
    path = os.path.abspath(os.fsdecode(tape))
    check_place(path)
    return f"record:file,tape:{tapes.quoted(path)}"


def check_place(tape: str, is_replaced: bool = False) -> None:
    """Raises ValueError where a tape cannot be written; its process would go on without one."""
    expand(tape)
    folder = os.path.dirname(tape)
    if "{" in folder:
        return
    if not os.path.isdir(folder):
        raise ValueError(f"{folder}: no such folder; make it, for the tapes go there")
    if os.path.exists(tape) and not os.path.isfile(tape):
        raise ValueError(f"{tape} is a folder, a device or a pipe: the tape is a file; name another (-o, tape=)")
    if is_replaced:
        check_replaced(tape)
    if not os.access(tape if is_replaced and os.path.exists(tape) else folder, os.W_OK):
        raise ValueError(f"{tape} cannot be written here; name a place that can (-o, tape=)")


def expand(tape: str) -> str:
    """The path of this process, with ``{rank}``, ``{pid}`` and ``{device}`` filled in, as the library fills them in
    (``settings/src/tape_path.rs``).

    :raises ValueError: where ``RANK`` is no number, which could lead anywhere
    """
    if "{rank}" in tape:
        rank = os.environ.get("RANK") or "0"
        if re.fullmatch("[0-9]+", rank) is None or int(rank) >= 2**32:
            raise ValueError(
                f"{{rank}} in {tape} stands for the value of RANK, which is {rank!r} and not a number: set RANK to the "
                "process's number in its job, or write {pid}"
            )
        tape = tape.replace("{rank}", str(int(rank)))
    return tape.replace("{pid}", str(os.getpid())).replace("{device}", "0")


def check_replaced(tape: str) -> None:
    """Raises ValueError where something is there that a tape does not replace: only a tape of this user's, or an
    empty file (``recorder/src/tape/tape_file.rs``).
    """
    why = _why_kept(tape)
    if why is not None:
        raise ValueError(
            f"{tape} is not replaced: {why}, and a tape replaces only a tape of this user or an empty file; name "
            "another path (-o, tape=), or remove it"
        )


def _why_kept(tape: str) -> Optional[str]:
    try:
        found = os.lstat(tape)
    except OSError:
        return None  # Nothing is there.
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(found.st_mode):
        return "it is a folder, a device or a pipe"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    try:
        descriptor = os.open(tape, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    with open(descriptor, "rb") as file:
        start = file.read(len(_MAGIC))
    return None if _MAGIC.startswith(start) else "it is not a tape"


def free_name(tape: str) -> str:
    """The path, placeholders included, under which no tape is there: ``run-2.vtape`` for ``run.vtape``, if need be."""
    folder = os.path.dirname(tape)
    if "{pid}" in tape or "{" in folder:
        return tape  # The name is this process's own, or the folder is known only later.
    there = os.listdir(folder)
    return next(name for name in names(tape) if not any(_is_of(os.path.basename(name), file) for file in there))


def claim(tape: str) -> str:
    """Makes an empty file of the first free name, which no other process takes then, and returns that name."""
    for name in names(tape):
        try:
            if not os.path.lexists(f"{name}.1"):
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                return name
        except FileExistsError:
            pass
    raise AssertionError("names end")


def names(tape: str) -> Iterator[str]:
    """The path itself, and those beside it in the order in which they are tried."""
    stem, suffix = os.path.splitext(tape)
    yield tape
    for number in itertools.count(2):
        yield f"{stem}-{number}{suffix}"


def _is_of(name: str, file: str) -> bool:
    """Whether this file is a tape of that name, of whatever rank and device, or the older part of one."""
    pattern = re.escape(name)
    for any_of in ("rank", "device"):
        pattern = pattern.replace(re.escape(f"{{{any_of}}}"), "[0-9]+")
    return re.fullmatch(rf"{pattern}(\.1)?", file) is not None
