"""The verbs of the lab. What each returns is what the command of its name prints with ``--json``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional, Union

from ._ask import Progress, ask
from ._library import Text

Run = Union[str, bytes, "os.PathLike[str]"]
Runs = Union[Run, Iterable[Run]]
Texts = Union[str, Iterable[str], None]


def replay(
    run: Run,
    strategy: Optional[str] = None,
    config: Optional[str] = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Says what a run would have reserved under one setting.

    :param run: a tape, a PyTorch memory snapshot, a log of RMM or a problem of minimalloc, also .zst or .gz
    :param strategy: how requests become placements, ``NAME`` or ``NAME:SETTINGS``; as recorded if left out
    :param config: settings as in ``PYTORCH_CUDA_ALLOC_CONF``, ``""`` for PyTorch's defaults; as recorded if left out
    :param device: which device of the run, if it has several
    :param capacity: memory of the simulated device, in bytes or such as ``"24GiB"``, or ``"unlimited"``; as recorded
        if left out
    :param progress: called now and then with the records that are done and their total, and stops the work where it
        raises; ``True`` for a bar on standard error
    :param meta: JSON with what a snapshot does not hold: ``torch``, ``device_total_bytes``, ``fraction``
    :param compat: whose behaviour to reproduce, ``"2.11"`` or ``"2.15"``; as recorded if left out
    :param empty_cache: follow the emptied caches that an import only concluded
    :param cold: of a run that starts in the middle, request what was live there anew from an empty device
    :param threads: how many threads work, one a core if left out
    :raises vramtape.Error: when the run cannot be read or replayed, or there are no such settings
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold)
    settings = [*_flags("strategy", strategy), *_flags("config", config)]
    return ask(["replay", *settings, *machine, *_runs(run)], threads, progress)


def compare(
    runs: Runs,
    strategy: Texts = None,
    config: Texts = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    keep_going: bool = False,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Replays under the recorded settings, the usual ones and models of other allocators; a row each in ``rows``.

    :param runs: a run; or several and folders of them, all ranks of a job, of which the answer has ``ranks`` too
    :param strategy: a strategy to add to the table, or several
    :param config: settings to add to the table, or several
    :param keep_going: of several runs, leave out those that cannot be read or replayed, and name them in ``skipped``

    The others are those of :func:`replay`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold)
    settings = [*_flags("strategy", strategy), *_flags("config", config)]
    return ask(["compare", *settings, *machine, *_runs(runs, keep_going)], threads, progress)


def waste(
    runs: Runs,
    strategy: Optional[str] = None,
    config: Optional[str] = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    points: Optional[int] = None,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    keep_going: bool = False,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Says where a run's reserved memory goes, byte for byte, at the peak, out of memory and over time.

    :param strategy: ``native`` or ``expandable``, with settings or without; as recorded if left out
    :param points: how many moments of the run are in ``series``, at most

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("points", points)]
    return ask(["waste", *settings, *machine, *_runs(runs, keep_going)], threads, progress)


def fit(
    runs: Runs,
    strategy: Texts = None,
    config: Texts = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    gpu: Optional[str] = None,
    checks: Optional[int] = None,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    keep_going: bool = False,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Says what the smallest device is that a run fits on, under each row of :func:`compare`.

    :param capacity: also answer for a device of this size, under ``verdict``
    :param gpu: also answer for this GPU, by its name, such as ``"l40s"``
    :param checks: larger capacities that are tried as well

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("gpu", gpu)]
    return ask(["fit", *settings, *_flags("checks", checks), *machine, *_runs(runs, keep_going)], threads, progress)


def tune(
    runs: Runs,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    lines: Optional[int] = None,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    keep_going: bool = False,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Finds the settings under which runs together reserve least; ``export`` has the lines for a shell.

    :param lines: how many lines of settings are tried, at most about

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold)
    return ask(["tune", *_flags("lines", lines), *machine, *_runs(runs, keep_going)], threads, progress)


def info(run: Run, progress: Progress = None) -> dict[str, Any]:
    """Says what a run holds: its description, its devices and how many events of each kind."""
    return ask(["info", *_runs(run)], 1, progress)


def _machine(
    device: Optional[int],
    capacity: Union[int, str, None],
    meta: Optional[Run],
    compat: Optional[str],
    empty_cache: bool,
    cold: bool,
) -> list[Text]:
    flags = [*_flags("device", device), *_flags("capacity", capacity), *_flags("compat", compat)]
    if meta is not None:
        flags += ["--meta", meta]
    if cold:
        flags.append("--cold")
    return flags if empty_cache else [*flags, "--no-empty-cache"]


def _flags(name: str, value: Union[int, Texts]) -> list[Text]:
    """``--NAME=VALUE``, once for each value."""
    if value is None:
        return []
    values = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return [f"--{name}={one}" for one in values]


def _runs(runs: Runs, keep_going: bool = False) -> list[Text]:
    """The runs, the last of a command line; ``-`` is a file of that name here, not standard input."""
    several = [runs] if isinstance(runs, (str, bytes, os.PathLike)) else runs
    try:
        names = [os.fsencode(run) for run in several]
    except TypeError:
        raise TypeError(f"{runs!r} is no run: give the path of a tape or a snapshot") from None
    flags = ["--json", "--keep-going"] if keep_going else ["--json"]
    return [*flags, "--", *(b"./-" if name == b"-" else name for name in names)]
