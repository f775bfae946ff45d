"""GPU memory in a training loop: a line in the log, the peak of each interval, a snapshot at a step.

Works with vramtape as the allocator, with vramtape observing, and with PyTorch's own allocator alone. Everything here
is best effort: a value that is unavailable is a warning, printed once, and the training goes on.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any, Callable, Optional, Union

from . import _device, _text, marks
from ._device import Device
from ._files import whole
from ._rank import rank

GIB = 1 << 30

_logger = logging.getLogger("vramtape")
Path_ = Union[str, "os.PathLike[str]"]


def get_memory_stats(device: Device = None) -> dict[str, float]:
    """A device's memory: ``allocated``, ``peak``, ``reserved`` and ``total``, each in GiB (``_gb``) and in bytes
    (``_bytes``).

    ``peak`` is the most that was allocated since the start, :func:`reset_peak_memory` or the last report. All are 0
    without CUDA, or before its first use, as in ``torch.cuda``.

    :param device: as in ``torch.cuda``; the current device if left out
    """
    allocated = peak = reserved = total = 0
    cuda = _cuda()
    if cuda is not None:
        allocated, peak = cuda.memory_allocated(device), cuda.max_memory_allocated(device)
        reserved, total = cuda.memory_reserved(device), cuda.get_device_properties(device).total_memory
    found = {"allocated": allocated, "peak": peak, "reserved": reserved, "total": total}
    in_gib = {f"{name}_gb": size / GIB for name, size in found.items()}
    return {**in_gib, **{f"{name}_bytes": size for name, size in found.items()}}


def get_memory_utilization(device: Device = None) -> float:
    """The peak as a share of the device's memory, from 0 to 1; 0 without CUDA."""
    return _utilization(get_memory_stats(device))


def format_memory_stats(stats: Optional[dict[str, float]] = None, step: Optional[int] = None) -> str:
    """``[step 7] GPU mem: 12.3GiB allocated, 14.8GiB peak, 16.0GiB reserved / 80.0GiB total (19%)``.

    The share is the peak's, of the total.

    :param stats: what :func:`get_memory_stats` gave; of the current device, now, if left out
    :param step: left out of the line where it is not given
    """
    stats = get_memory_stats() if stats is None else stats
    names = ("allocated", "peak", "reserved", "total")
    allocated, peak, reserved, total = (f"{stats[f'{name}_gb']:.1f}GiB {name}" for name in names)
    head = "" if step is None else f"[step {step}] "
    return f"{head}GPU mem: {allocated}, {peak}, {reserved} / {total} ({_utilization(stats):.0%})"


def reset_peak_memory(device: Device = None) -> None:
    """Lets the peak begin again from what is allocated now. Does nothing without CUDA."""
    cuda = _cuda()
    if cuda is not None:
        cuda.reset_peak_memory_stats(device)


class Monitor:
    """Reports the memory of a training loop.

    >>> monitor = vramtape.Monitor(snapshot_step=100, snapshot_dir="snapshots")
    >>> for number, batch in enumerate(loader):
    ...     train(batch)
    ...     monitor.report(number)

    A report never raises.

    :param device: as in ``torch.cuda``; the device that is current at each report if left out
    :param snapshot_step: take a snapshot in the report of this step
    :param snapshot_dir: where it goes; made if it is not there
    :param oom_dir: where tape, snapshot and page of the process's first out of memory go, as with ``oom_dir`` in
        ``VRAMTAPE_CONF``; made then.
    :param log: what is called with each line; if left out, the logger ``vramtape``, or standard error where the program
        has set up no logging that would show it
    """

    def __init__(
        self,
        device: Device = None,
        snapshot_step: Optional[int] = None,
        snapshot_dir: Path_ = ".",
        log: Optional[Callable[[str], object]] = None,
        oom_dir: Optional[Path_] = None,
    ) -> None:
        self.device = device
        self.snapshot_step = snapshot_step
        self.snapshot_dir = Path(snapshot_dir)
        self.log = log
        self._warned: set[str] = set()
        if oom_dir is not None:
            self._save_oom(oom_dir)

    def _save_oom(self, folder: Path_) -> None:
        from . import _oom_dump

        try:
            _oom_dump.at_first_oom(folder)
        except Exception as error:
            self._warn("oom", f"an out of memory is not saved: {error}")

    def report(self, step: int) -> dict[str, float]:
        """Logs one line about the interval since the last report, takes the snapshot if it is this step's turn, and
        lets the peak begin again.

        Returns what :func:`get_memory_stats` gave. Without CUDA nothing is logged.
        """
        stats: dict[str, float] = {}
        marks.record_host_memory()
        try:
            stats = get_memory_stats(self.device)
            if stats["total_bytes"]:
                (self.log or _log)(format_memory_stats(stats, step))
        except Exception as error:
            self._warn("report", f"GPU memory cannot be reported: {error}")
        if step == self.snapshot_step:
            self.snapshot(step)
        try:
            reset_peak_memory(self.device)
        except Exception as error:
            self._warn("reset", f"the peak of GPU memory cannot be reset: {error}")
        return stats

    def snapshot(self, step: Optional[int] = None) -> Optional[Path]:
        """Writes a snapshot for PyTorch's viewer (``pytorch.org/memory_viz``), with what led to it, and returns its
        path; None, after one warning, where it cannot be written.

        With vramtape in the process it has the events that the ring holds, and a tape of them lies beside it; no
        history has to be on. With PyTorch's own allocator alone it has what ``_record_memory_history`` recorded. The
        page of :func:`vramtape.view` lies beside both.
        """
        try:
            return self._snapshot(step)
        except Exception as error:
            self._warn("snapshot", f"no snapshot of GPU memory was written: {error}")
            return None

    def _snapshot(self, step: Optional[int]) -> Optional[Path]:
        cuda = _cuda()
        if cuda is None:
            return None
        index = _device.index(self.device)
        if index is None:
            index = cuda.current_device()
        if index >= cuda.device_count():
            raise ValueError(f"there is no device {index}: this process has {cuda.device_count()}, counted from 0")
        at = "" if step is None else f"-step{step}"
        path = self.snapshot_dir / f"memory-rank{rank()}-device{index}{at}.pickle"
        self.snapshot_dir.mkdir(parents=True, exist_ok=True)
        run = path.with_suffix(".vtape")
        if not _snapshot_of_ring(index, path, run):
            with whole(path) as made:
                cuda.memory._dump_snapshot(str(made))
            run = path
        self._draw(run)
        return path

    def _draw(self, run: Path) -> None:
        """Writes the page of a run beside it, where the library is installed."""
        from . import _lab

        try:
            _lab.view(run, run.with_suffix(".html"), force=True)
        except ImportError:
            return
        except Exception as error:
            self._warn("page", f"no page of {run} was written: {error}")

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _text.warn(f"vramtape: {text}; training goes on", stacklevel=4)


def _snapshot_of_ring(device: int, path: Path, tape: Path) -> bool:
    """Writes the device's ring as a tape and as a snapshot; False where nothing of it is recorded in this process."""
    from . import _profile, _runtime

    try:
        if not _runtime.load().vramtape_ring_position(device):
            return False
    except ImportError:
        return False
    _runtime.call("tape_save", device, tape)
    try:
        _profile.export(tape, path)
    except Exception as error:
        raise RuntimeError(f"{error}; what it would have said is in {tape}, for `vramtape export`") from error
    return True


def _cuda() -> Any:
    """``torch.cuda``, if it is in use. Asking for memory begins nothing: forked workers can still use CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def _utilization(stats: dict[str, float]) -> float:
    return stats["peak_bytes"] / stats["total_bytes"] if stats["total_bytes"] else 0.0


def _log(line: str) -> None:
    if _logger.hasHandlers() and _logger.isEnabledFor(logging.INFO):
        _logger.info(line)
    else:
        print(_text.visible(line), file=sys.stderr, flush=True)
