"""Files that appear whole under their name, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

_SCRATCH = ".vramtape-"


def check_place(path: Union[str, os.PathLike[str]]) -> None:
    """Checks that a file can stand at ``path``, before the work for it.

    :raises OSError: when it cannot, such as in the place of a folder or a device
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {target}: it is a device, a pipe or a folder, which a file must not replace")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}; make it first")


@contextmanager
def whole(path: Union[str, os.PathLike[str]], suffix: str = "") -> Iterator[Path]:
    """A place to write what stands at ``path`` once the block has ended well.

    :param suffix: the suffix of the temporary name, for writers that depend on it; the path's own if left out
    :raises OSError: when it cannot stand there, such as in the place of a folder or a device
    """
    target = Path(path)
    check_place(target)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=_SCRATCH) as scratch:
            made = Path(scratch) / f"made{suffix or target.suffix}"
            yield made
            os.replace(made, target)
    except OSError as error:
        names = f"{error.filename or _SCRATCH} {error.filename2}"
        if error.errno is None or _SCRATCH not in names:
            raise  # It is about another file.
        # Names the caller's file, not the temporary one.
        raise OSError(error.errno, error.strerror, str(target)) from None
