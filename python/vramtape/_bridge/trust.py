"""Compiled code is loaded only from places that no other user of the machine can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Untrusted(OSError):
    """A file or folder that another user may have written; the text names it and says what to do."""


def make_private(folder: Path) -> None:
    """Makes ``folder`` for this user alone, or checks the one that is there.

    :raises Untrusted: when it belongs to another user or others can write it
    :raises OSError: when it cannot be made
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    _check(folder, f"`chmod 700 {folder}`, or remove it")


def is_ours(library: Path) -> bool:
    """Whether there is a library that is not empty, in a private folder and written by this user.

    :raises Untrusted: when there is one that another user may have written
    """
    try:
        size_bytes = os.lstat(library).st_size
    except FileNotFoundError:
        return False
    _check(library.parent, f"`chmod 700 {library.parent}`, or remove it")
    _check(library, "remove it")
    return size_bytes > 0


def _check(path: Path, advice: str) -> None:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise Untrusted(f"{path} is a link, and compiled code is not loaded through one: {advice}")
    # Root's files are trusted: root can change any of ours.
    if found.st_uid not in (os.geteuid(), 0):
        owner = f"user {found.st_uid}, whose code is not loaded"
        raise Untrusted(f"{path} belongs to {owner}: {advice}, or name another folder in VRAMTAPE_CACHE")
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise Untrusted(f"{path} can be written by other users (mode {stat.S_IMODE(found.st_mode):o}): {advice}")
