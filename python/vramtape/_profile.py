"""The memory of one block of code, from the tape that is there anyway."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import shutil
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from . import _device, _oom_dump, _runtime, _text
from ._device import Device
from ._files import whole
from ._query import query
from ._rank import rank

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Path = Union[str, "os.PathLike[str]"]
# Devices that a process can have.
_DEVICES = 64
_numbers = itertools.count()
# Processes, and directories in which they have saved an out of memory.
_saved_ooms: set[tuple[int, str]] = set()


class profile:  # noqa: N801  It is used as a function is.
    """Records what a block allocates and frees, and what of it was there before.

    >>> with vramtape.profile("step.html") as p:
    ...     train_one_step()
    >>> p.memory_stats["peak_allocated_bytes"]
    >>> p.save_pickle("step.pickle")

    >>> @vramtape.profile()
    ... def step(): ...

    Nothing is synchronised, emptied or reset, and what is recorded is what the ring records anyway, so a block costs
    what saving its tape costs at its end. Blocks may nest, be entered again, and run in several threads at once: each
    has all that its devices did meanwhile, whichever thread it was. An exception ends a block like any other end.

    What is asked of a profile is asked of the block that it finished last.

    :param path: where the block is saved when it ends: ``.html`` (the lab's page), ``.pickle`` or ``.json`` (for
        PyTorch's viewer) or ``.vtape`` (a tape). A file that cannot be written is a warning
    :param device: the device that the page and the numbers are of, as in ``torch.cuda``; the current one if left out
    """

    def __init__(self, path: Optional[_Path] = None, *, device: Device = None) -> None:
        if callable(path):
            raise TypeError("vramtape.profile takes the name of a file: write @vramtape.profile(), with its brackets")
        if path is not None and Path(path).suffix not in _SAVERS:
            raise ValueError(f"{os.fspath(path)!r}: a profile is saved as one of {', '.join(_SAVERS)}")
        self._path = path
        self._device = _device.index(device)
        self._oom_dir: Optional[Path] = None
        self._open = threading.local()  # A thread leaves its blocks in the order it entered them in reverse.
        self._last: Optional[_Block] = None

    def dump_on_oom(self, directory: _Path) -> profile:
        """Saves tape, snapshot and page (of :func:`vramtape.view`) of a block that ends by an out of memory in this
        directory, which is made then: of the first such block of the process, as a search for the largest batch ends
        many.

        Their names carry rank, process and device. ``oom_dir`` in ``VRAMTAPE_CONF`` saves the first out of memory of a
        process, inside a block or not. Returns the profile, so that it can stand in the ``with``.
        """
        self._oom_dir = Path(directory)
        return self

    def __enter__(self) -> profile:
        blocks = self._open.__dict__.setdefault("blocks", [])
        blocks.append(_Block(self._device))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        block = self._open.blocks.pop()
        block.end()
        self._last = block
        if self._path is not None:
            _best_effort(block.save, self._path)
        if self._oom_dir is not None and _is_oom(error):
            _save_first_oom(block, self._oom_dir)

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def profiled(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return profiled  # type: ignore[return-value]

    @property
    def memory_stats(self) -> dict[str, Any]:
        """The block's numbers for its device: what ``vramtape.info`` says of a device.

        ``start_``, ``end_`` and ``peak_allocated_bytes``, the same of ``reserved_bytes``, ``records``, ``lost``
        (records that the ring had no room for), ``seconds``, ``events`` by kind, what the peak held in
        ``peak_held``, and the code that held it in ``holders``, where stacks are recorded.

        :raises RuntimeError: when no block has ended, nothing was recorded, or nothing of the device that was named
        """
        return self._block.stats()

    def save_html(self, path: _Path, device: Device = None) -> None:
        """Writes the block's page: memory over time, the address map, waste, other strategies and settings, and the
        code that held memory, where stacks are recorded.

        :raises RuntimeError: as for :attr:`memory_stats`
        :raises vramtape.Error: when the page cannot be written
        """
        self._block.save_html(path, device)

    def save_pickle(self, path: _Path) -> None:
        """Writes a snapshot of all devices for PyTorch's viewer: the state at the end and the events that led to it.

        It is a pickle, or JSON where the path ends with ``.json``.

        :raises OSError: when it cannot be written
        :raises: as :meth:`save_html`
        """
        self._block.save_pickle(path)

    def save_tape(self, path: _Path) -> None:
        """Writes a tape of all devices, which begins with the state at the block's start.

        :raises RuntimeError: as for :attr:`memory_stats`
        :raises OSError: when it cannot be written
        """
        self._block.save_tape(path)

    @property
    def _block(self) -> _Block:
        if self._last is None:
            raise RuntimeError("no block has ended yet: ask when the `with` or the call is over")
        return self._last


class _Block:
    """One run of the profiled code."""

    def __init__(self, device: Optional[int]) -> None:
        self._device = device
        self._is_named = device is not None
        self._tape: Optional[Path] = None
        self._problem = ""
        # An ImportError here is the program's: nothing can be profiled without the library.
        library = _runtime.load()
        _announce()
        self._positions = (ctypes.c_uint64 * _DEVICES)()
        for at in range(_DEVICES):
            self._positions[at] = library.vramtape_ring_position(at)

    def end(self) -> None:
        """Keeps what was recorded since the start. Never raises: the block's own exception matters more."""
        try:
            _announce()
            folder = tempfile.mkdtemp(prefix="vramtape-profile-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            tape = Path(folder) / "block.vtape"
            lost = _runtime.call("tape_save_since", self._positions, _DEVICES, tape)
            self._tape = tape
        except Exception as error:
            self._problem = reason(error)
            _warn(f"this block was not profiled: {self._problem}")
            return
        if self._device is None:
            self._device = _current_device()
        if lost:
            _warn(
                f"{lost} records at the beginning of this block are missing, as the ring is smaller than the block: "
                "set ring_events in VRAMTAPE_CONF higher"
            )

    def is_empty(self) -> bool:
        """Whether no device has recorded anything since the start."""
        position = _runtime.load().vramtape_ring_position
        return all(position(at) == self._positions[at] for at in range(_DEVICES))

    def devices(self) -> list[dict[str, Any]]:
        """The devices of ``vramtape.info`` for the block."""
        found: list[dict[str, Any]] = query(["info", "--json", "--", self._recorded()], 1, None)["devices"]
        return found

    def stats(self) -> dict[str, Any]:
        return self._of_device(self.devices())

    def save(self, path: _Path) -> None:
        """Saves the block in the format that the name says."""
        _SAVERS[Path(path).suffix](self, path)

    def save_all(self, directory: _Path) -> None:
        """Saves the block as tape, snapshot and page, under names that no other block has."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        device = self.stats()["id"]
        stem = f"oom-rank{rank()}-pid{os.getpid()}-device{device}-{next(_numbers)}"
        tape = folder / f"{stem}.vtape"
        self.save_tape(tape)
        _oom_dump.write_beside(tape)

    def save_html(self, path: _Path, device: Device = None) -> None:
        named = _device.index(device)
        which = self.stats()["id"] if named is None else named
        flags = [f"--device={which}", "--html", path, "--force"]
        query(["compare", "--json", *flags, "--", self._recorded()], None, None)

    def save_pickle(self, path: _Path) -> None:
        if Path(path).suffix in (".pickle", ".json"):
            export(self._recorded(), path)
            return
        with whole(path, suffix=".pickle") as made:  # The lab goes by the ending.
            export(self._recorded(), made)

    def save_tape(self, path: _Path) -> None:
        recorded = self._recorded()
        with whole(path) as made:
            shutil.copyfile(recorded, made)

    def _recorded(self) -> Path:
        if self._tape is None:
            raise RuntimeError(f"this block was not profiled: {self._problem}")
        return self._tape

    def _of_device(self, devices: list[dict[str, Any]]) -> dict[str, Any]:
        """The device's; the first's, where the current one was not used."""
        own = [one for one in devices if one["id"] == self._device]
        if not devices:
            raise RuntimeError("this block used no device: there is nothing to say of one")
        if self._is_named and not own:
            used = ", ".join(str(one["id"]) for one in devices)
            raise RuntimeError(f"nothing is recorded of device {self._device}, only of {used}: name another")
        return (own or devices)[0]


_SAVERS: dict[str, Callable[[_Block, _Path], None]] = {
    ".html": _Block.save_html,
    ".pickle": _Block.save_pickle,
    ".json": _Block.save_pickle,
    ".vtape": _Block.save_tape,
}


def export(tape: _Path, path: _Path) -> None:
    """Writes a tape as a snapshot for PyTorch's viewer.

    :raises vramtape.Error: when it cannot be written
    """
    query(["export", "--json", "--force", "-o", path, "--", tape], 1, None)


def reason(error: Exception) -> str:
    """Why nothing was recorded: where vramtape is not active, that is why, whatever failed."""
    install = sys.modules.get(f"{__package__}._install")
    if install is not None and install.active_route() is not None:
        return str(error)
    return (
        "vramtape is not active in this process: call vramtape.install() or vramtape.observe() before CUDA is used, or "
        "start the program with `python -m vramtape run` or `record`"
    )


def _announce() -> None:
    """The tape of a block says what its memory holds, though nothing of that may have happened in it."""
    automatic = sys.modules.get(f"{__package__}._automatic")
    if automatic is not None:
        automatic.announce()


def _current_device() -> Optional[int]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.current_device())


def _is_oom(error: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _save_first_oom(block: _Block, directory: Path) -> None:
    """Saves the block, if it is the first that this process saves there."""
    place = (os.getpid(), os.path.abspath(directory))
    if place not in _saved_ooms:
        _saved_ooms.add(place)
        _best_effort(block.save_all, directory)


def _best_effort(save: Callable[[_Path], None], path: _Path) -> None:
    try:
        save(path)
    except Exception as error:
        _warn(f"this profile was not saved at {path}: {error}")


def _warn(text: str) -> None:
    _text.warn(f"vramtape: {text}", stacklevel=4)
