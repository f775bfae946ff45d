"""The files of an out of memory: a tape, and beside it a snapshot for PyTorch's viewer and the page of ``view``.

``oom_dir`` in ``VRAMTAPE_CONF``, ``Monitor``, the callbacks and ``profile.dump_on_oom`` have them written here. A file
that cannot be written is a warning: the exception of the out of memory matters more.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any, Optional, Union

from . import _runtime, _text
from ._files import whole
from ._rank import rank

_Path = Union[str, "os.PathLike[str]"]

_lock = threading.Lock()
_is_watching = False
# The tape of the out of memory that was saved.
saved: Optional[Path] = None
# The folder for PyTorch's own allocator, which the library does not see, and the process that has written there.
_folder: Optional[Path] = None
_dumped_by: Optional[int] = None


def watch_if_set() -> None:
    """Begins where the settings have ``oom_dir``."""
    if _runtime.answer("conf")["oom_dir"]:
        _watch()


def at_first_oom(folder: _Path) -> None:
    """Has the first out of memory of this process saved in this folder, which is made then.

    With vramtape in the process the tape has the events that the ring holds. With PyTorch's own allocator alone there
    is no tape, and the snapshot has what ``_record_memory_history`` recorded.
    """
    global _folder
    _folder = Path(folder)
    if _is_active():
        _runtime.call("set_oom_dir", folder)
    _watch()


def write_beside(tape: Path) -> None:
    """Writes the snapshot and the page of a tape beside it."""
    from . import _lab, _profile

    for suffix, write in (
        (".pickle", lambda path: _profile.export(tape, path)),
        (".html", lambda path: _lab.view(tape, path, force=True)),
    ):
        path = tape.with_suffix(suffix)
        try:
            write(path)
        except Exception as error:
            _warn(f"{path} was not written: {error}")


def _watch() -> None:
    """Attaches PyTorch's observer, once CUDA is in use: to attach it earlier would begin to use it."""
    global _is_watching
    with _lock:
        if _is_watching:
            return
        _is_watching = True
    torch = sys.modules["torch"]
    torch.cuda._lazy_call(lambda: torch._C._cuda_attach_out_of_memory_observer(_at_oom))


def _at_oom(device: int, *_: Any) -> None:
    """Called on the thread that runs out of memory, before the exception and without PyTorch's locks."""
    global saved
    try:
        if _is_active():
            tape = _runtime.text("oom_tape", device)
            if tape:
                saved = Path(tape)
                write_beside(saved)
        else:
            _dump_pytorchs(device)
    except Exception as error:
        _warn(f"the out of memory is not saved: {error}")


def _dump_pytorchs(device: int) -> None:
    global _dumped_by
    if _folder is None or _dumped_by == os.getpid():
        return
    _dumped_by = os.getpid()
    from . import _lab

    _folder.mkdir(parents=True, exist_ok=True)
    path = _folder / f"oom-rank{rank()}-pid{os.getpid()}-device{device}.pickle"
    with whole(path) as made:
        sys.modules["torch"].cuda.memory._dump_snapshot(str(made))
    try:
        _lab.view(path, path.with_suffix(".html"), force=True)
    except ImportError:  # Without the library there is no page.
        return


def _is_active() -> bool:
    install = sys.modules.get(f"{__package__}._install")
    return install is not None and install.active_route() is not None


def _warn(text: str) -> None:
    _text.warn(f"vramtape: {text}", stacklevel=4)
