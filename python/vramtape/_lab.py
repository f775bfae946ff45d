"""The verbs of the lab. What each returns is what the command of its name prints with ``--json``.

``import`` is a word of Python's own, so that verb is :func:`import_run` here. Verbs that answer yes or no with their
exit code do so in the answer: ``same`` of :func:`verify`, ``within`` of :func:`diff`, ``verdict`` of :func:`leaks`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable
from typing import Any, Optional, Union

from ._library import Text
from ._page import Page
from ._query import Progress, query

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
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    address_orders: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Replays a run under one setting and returns the memory that it reserves.

    :param run: a tape, a PyTorch memory snapshot, a log of RMM or a problem of minimalloc, also .zst or .gz
    :param strategy: how requests become placements, ``NAME`` or ``NAME:SETTINGS``; as recorded if left out
    :param config: settings as in ``PYTORCH_CUDA_ALLOC_CONF``, ``""`` for PyTorch's defaults; as recorded if left out
    :param device: which device of the run, if it has several
    :param capacity: memory of the simulated device: an ``int`` of bytes, a text with a unit such as ``"24GiB"`` or
        ``"24GB"`` (both binary), or ``"unlimited"``; as recorded if left out
    :param progress: called now and then with the records that are done and their total, and stops the work where it
        raises; ``True`` for a bar on standard error
    :param meta: JSON with what a snapshot does not hold: ``torch``, ``device_total_bytes``, ``fraction``
    :param compat: whose behaviour to reproduce, ``"2.11"`` or ``"2.15"``; as recorded if left out
    :param empty_cache: follow the emptied caches that an import only inferred
    :param cold: of a run that starts in the middle, request what was live there anew from an empty device
    :param edit: an edit of the program, such as ``"scale:0.5"``, or several; ``vramtape help edit`` has them all
    :param trust_factor: accept a file that holds this many times more than is expected of its size
    :param address_orders: also replay with so many other orders of the driver's addresses, for the range of reserved
        memory
    :param threads: how many threads work, one a core if left out
    :raises vramtape.Error: when the run cannot be read or replayed, or there are no such settings
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("address-orders", address_orders)]
    return query(["replay", *settings, *machine, *_runs(run)], threads, progress)


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
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Replays under the recorded settings, the usual ones and models of other allocators; a row each in ``rows``.

    A row whose replay makes too many driver calls has an ``error`` and no figures.

    :param runs: a run; or several and folders of them, all ranks of a job, of which the answer has ``ranks`` too
    :param strategy: a strategy to add to the table, or several
    :param config: settings to add to the table, or several
    :param keep_going: of several runs, leave out those that cannot be read or replayed, and name them in ``skipped``

    The others are those of :func:`replay`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    settings = [*_flags("strategy", strategy), *_flags("config", config)]
    return query(["compare", *settings, *machine, *_runs(runs, keep_going)], threads, progress)


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
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Breaks down a run's reserved memory, byte for byte, at the peak, out of memory and over time.

    :param strategy: ``native`` or ``expandable``, with settings or without; as recorded if left out
    :param points: how many moments of the run are in ``series``, at most

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("points", points)]
    return query(["waste", *settings, *machine, *_runs(runs, keep_going)], threads, progress)


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
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Finds the smallest device that a run fits on, under each row of :func:`compare`.

    :param capacity: also answer for a device of this size, under ``verdict``
    :param gpu: also answer for this GPU, by its name, such as ``"l40s"``, ``"4090"`` or what
        ``torch.cuda.get_device_name()`` returns
    :param checks: larger capacities that are tried as well

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("gpu", gpu)]
    return query(["fit", *settings, *_flags("checks", checks), *machine, *_runs(runs, keep_going)], threads, progress)


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
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Finds the settings under which runs together reserve least; ``export`` has the lines for a shell.

    :param lines: how many lines of settings are tried, at most about

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    return query(["tune", *_flags("lines", lines), *machine, *_runs(runs, keep_going)], threads, progress)


def leaks(
    runs: Optional[Runs] = None,
    device: Union[int, str, Any, None] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    step: Optional[str] = None,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    keep_going: bool = False,
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Finds the code that holds more memory from step to step, in ``rows``; ``verdict`` is the answer.

    Without a run it reads the records of this process, and each row has ``holders`` too: the chains of Python's
    references to some of its blocks.

    :param runs: as for :func:`compare`; the records of this process if left out
    :param device: as for :func:`replay`; of this process as in ``torch.cuda``, the current device if left out
    :param step: what begins a step, if not the marks of steps: the name of a mark, or code such as ``"train.py:31"``
    :raises RuntimeError: without a run, where nothing is recorded in this process

    The others are those of :func:`compare`.
    """
    if runs is None:
        from . import _device, _live_leaks

        index = _device.index(device)
        index = _current_device() if index is None else index
        machine = _machine(None, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
        line = ["leaks", *_flags("step", step), *machine]
        return _live_leaks.leaks(index, lambda tape: query([*line, *_runs(tape)], threads, progress))
    if device is not None and not isinstance(device, int):
        raise TypeError(f"device={device!r}: a run's device is a number")
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    return query(["leaks", *_flags("step", step), *machine, *_runs(runs, keep_going)], threads, progress)


def info(run: Run, progress: Progress = None, *, trust_factor: Optional[int] = None) -> dict[str, Any]:
    """Summarizes a run: its description, its devices and how many events of each kind.

    Of a folder it lists the runs, in ``runs``.

    :param trust_factor: as for :func:`replay`
    """
    return query(["info", *_flags("trust-factor", trust_factor), *_runs(run)], 1, progress)


def edit(
    run: Run,
    edits: Texts,
    output: Run,
    progress: Progress = None,
    *,
    force: bool = False,
    meta: Optional[Run] = None,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Writes the tape of a program that asks for something else.

    :param edits: an edit, such as ``"scale:0.5"``, or several; ``vramtape help edit`` has them all
    :param output: the file to write
    :param force: replace the file if it exists
    :param meta: as for :func:`replay`, like ``trust_factor``
    """
    given = [edits] if isinstance(edits, str) else list(edits or ())
    flags = [*_paths("output", output), *_paths("meta", meta), *_switch("force", force)]
    flags += _flags("trust-factor", trust_factor)
    return query(["edit", *flags, *_runs(run), *given], 1, progress)


def plan(
    runs: Runs,
    output: Run,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    force: bool = False,
    time: Optional[float] = None,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    edit: Texts = None,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Plans the placements of runs for the strategy ``stitch``, and replays each with and without the plan.

    :param output: the file to write, for ``VRAMTAPE_CONF=strategy:stitch,plan:FILE``
    :param force: replace the file if it exists
    :param time: seconds to search for better placements of a stream, at most

    The others are those of :func:`compare`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    flags = [*_paths("output", output), *_flags("time", time), *_switch("force", force)]
    return query(["plan", *flags, *machine, *_runs(runs)], 1, progress)


def pack(
    file: Run,
    output: Optional[Run] = None,
    progress: Progress = None,
    *,
    capacity: Union[int, str, None] = None,
    time: Optional[float] = None,
    device: Optional[int] = None,
    force: bool = False,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Packs buffers whose lifetimes are known: a problem of minimalloc, or the blocks of a run.

    :param output: the problem with an offset for each buffer, if wanted
    :param capacity: fit the buffers into so many bytes, and stop there; without it as low as possible
    :param time: seconds to search, at most
    :param device: which device of a run, if it has several
    :param force: replace the output if it exists
    """
    flags = [*_paths("output", output), *_flags("capacity", capacity), *_flags("time", time)]
    flags += [*_flags("device", device), *_switch("force", force), *_flags("trust-factor", trust_factor)]
    return query(["pack", *flags, *_runs(file)], 1, progress)


def view(
    runs: Runs,
    output: Optional[Run] = None,
    progress: Progress = None,
    *,
    force: bool = False,
    meta: Optional[Run] = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> Page:
    """Writes runs as one HTML page that needs no network: memory over time, down to each block.

    A notebook shows the page where this is the last expression of a cell: ``vramtape.view("run.vtape")``.

    :param runs: a run, or several and folders of them
    :param output: the page to write; a temporary file if left out, which is removed with the object that is returned

    The others are those of :func:`edit`; ``threads`` is that of :func:`replay`.
    """
    folder = tempfile.mkdtemp(prefix="vramtape-view-") if output is None else None
    target = os.path.join(folder, "view.html") if folder is not None else output
    flags = [*_paths("output", target), *_paths("meta", meta), *_switch("force", force)]
    flags += _flags("trust-factor", trust_factor)
    try:
        page = Page(query(["view", *flags, *_runs(runs)], threads, progress))
    except BaseException:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if folder is not None:
        weakref.finalize(page, shutil.rmtree, folder, ignore_errors=True)
    return page


def import_run(
    file: Run,
    output: Run,
    progress: Progress = None,
    *,
    force: bool = False,
    meta: Optional[Run] = None,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Writes another tool's file as a tape: ``vramtape import``, whose name is a word of Python's own.

    :param file: a PyTorch memory snapshot, a log of RMM or a problem of minimalloc, also .zst or .gz

    The others are those of :func:`edit`.
    """
    flags = [*_paths("output", output), *_paths("meta", meta), *_switch("force", force)]
    flags += _flags("trust-factor", trust_factor)
    return query(["import", *flags, *_runs(file)], 1, progress)


def export(
    run: Run,
    output: Run,
    strategy: Texts = None,
    config: Texts = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    table: Optional[str] = None,
    format: Optional[str] = None,
    points: Optional[int] = None,
    force: bool = False,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Writes a run as tables for DuckDB, pandas or Polars, or as a PyTorch memory snapshot.

    :param output: a folder for all tables; or for one a file, ``FILE.parquet`` or ``FILE.arrow``; ``FILE.pickle`` or
        ``FILE.json`` for a memory snapshot
    :param strategy: a strategy to add to the table ``series``, or several
    :param config: settings to add to the table ``series``, or several
    :param table: only this table
    :param format: the kind of files in a folder, ``"parquet"`` if left out
    :param points: how many points a line of ``series`` has, at most
    :param force: replace files that exist

    The others are those of :func:`replay`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, False, edit, trust_factor)
    settings = [*_flags("strategy", strategy), *_flags("config", config), *_flags("points", points)]
    kind = [*_flags("table", table), *_flags("format", format), *_switch("force", force)]
    return query(["export", *_paths("output", output), *kind, *settings, *machine, *_runs(run)], threads, progress)


def diff(
    before: Run,
    after: Run,
    progress: Progress = None,
    *,
    fail_on: Optional[str] = None,
    markdown: Optional[Run] = None,
    step: Optional[str] = None,
    device: Optional[int] = None,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Finds what grew between two runs, at the peak and over a median step, in ``devices``.

    :param fail_on: how much figures may grow, such as ``"peak:+2%,reserved:+1GiB"``; ``within`` is the answer
    :param markdown: also write a summary for a pull request to this file
    :param step: as for :func:`leaks`
    :param device: as for :func:`replay`, like ``trust_factor``
    """
    flags = [*_flags("fail-on", fail_on), *_paths("markdown", markdown), *_flags("step", step)]
    flags += [*_flags("device", device), *_flags("trust-factor", trust_factor)]
    return query(["diff", *flags, *_runs([before, after])], 1, progress)


def explain(
    run: Optional[Run] = None,
    strategy: Optional[str] = None,
    config: Optional[str] = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    message: Optional[Run] = None,
    at: Union[int, str, None] = None,
    html: Optional[Run] = None,
    force: bool = False,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
) -> dict[str, Any]:
    """Explains an out of memory of a run, or its peak; or finds the out-of-memory messages of a text or a log.

    A run has ``oom`` (the verdict, its arithmetic, the request, the pinning set, what would have helped),
    ``free_space``, ``live`` and ``peak``; a text has ``messages``, each with its numbers and its verdict.

    :param run: a tape or a PyTorch memory snapshot
    :param strategy: ``native`` or ``expandable``, with settings or without; as recorded if left out
    :param message: instead of ``run``, the file with the text, of any size
    :param at: the moment: ``"oom"``, ``"peak"``, ``"last"``, the number of a record, or a time such as ``"1500ms"``
    :param html: also write the page of :func:`view` with the explanation
    :param force: replace the page if it exists

    The others are those of :func:`replay`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    flags = [*_flags("strategy", strategy), *_flags("config", config), *_flags("at", at), *_paths("message", message)]
    flags += [*_paths("html", html), *_switch("force", force)]
    named = ["--json"] if run is None else _runs(run)
    return query(["explain", *flags, *machine, *named], threads, progress)


def report(
    run: Run,
    output: Optional[Run] = None,
    format: Optional[str] = None,
    device: Optional[int] = None,
    capacity: Union[int, str, None] = None,
    progress: Progress = None,
    *,
    meta: Optional[Run] = None,
    compat: Optional[str] = None,
    empty_cache: bool = True,
    cold: bool = False,
    edit: Texts = None,
    trust_factor: Optional[int] = None,
    threads: Optional[int] = None,
    force: bool = False,
) -> dict[str, Any]:
    """Summarizes a run for an issue or a chat: ``report`` is the text, the other keys are what it consists of.

    :param run: a tape or a PyTorch memory snapshot
    :param output: a file to write, too
    :param format: ``"markdown"``, ``"text"`` or ``"html"``; that of the ending of ``output``, else markdown
    :param force: replace ``output`` if it exists

    The others are those of :func:`replay`.
    """
    machine = _machine(device, capacity, meta, compat, empty_cache, cold, edit, trust_factor)
    flags = [*_flags("format", format), *_paths("output", output), *_switch("force", force)]
    return query(["report", *flags, *machine, *_runs(run)], threads, progress)


def verify(
    run: Run,
    progress: Progress = None,
    *,
    meta: Optional[Run] = None,
    against: Optional[Run] = None,
    trust_factor: Optional[int] = None,
) -> dict[str, Any]:
    """Replays a run under its recorded settings and compares; ``same`` is the answer.

    :param run: a tape or a PyTorch memory snapshot
    :param against: compare the placements with those of this run instead; ``differences`` has the first of each device
    :param meta: JSON about its run: ``torch``, ``device_total_bytes``, ``fraction``, ``memory_stats``
    :param trust_factor: as for :func:`replay`
    """
    flags = [*_paths("meta", meta), *_paths("against", against), *_flags("trust-factor", trust_factor)]
    return query(["verify", *flags, *_runs(run)], 1, progress)


def recover(
    process: Union[int, Run, None] = None,
    output: Optional[Run] = None,
    progress: Progress = None,
    *,
    tape: Optional[Run] = None,
    force: bool = False,
    rings: Optional[Run] = None,
) -> dict[str, Any]:
    """Writes the tape of a killed process from the rings that it left in memory; lists the rings without arguments.

    :param process: its id, or the file of one ring
    :param output: the tape to write
    :param tape: the tape that the process was writing, whose end is torn; the rings continue it
    :param force: replace the file if it exists
    :param rings: the folder of the rings, if it is not the usual one
    """
    flags = [*_paths("output", output), *_paths("tape", tape), *_paths("folder", rings), *_switch("force", force)]
    named = [] if process is None else _runs(str(process) if isinstance(process, int) else process)
    return query(["recover", *flags, *(named or ["--json"])], 1, progress)


def _current_device() -> int:
    torch = sys.modules.get("torch")
    return 0 if torch is None or not torch.cuda.is_initialized() else int(torch.cuda.current_device())


def _machine(
    device: Optional[int],
    capacity: Union[int, str, None],
    meta: Optional[Run],
    compat: Optional[str],
    empty_cache: bool,
    cold: bool,
    edit: Texts,
    trust_factor: Optional[int],
) -> list[Text]:
    # An int is bytes; the command wants a unit.
    size = f"{capacity}B" if isinstance(capacity, int) else capacity
    flags = [*_flags("device", device), *_flags("capacity", size), *_flags("compat", compat), *_flags("edit", edit)]
    flags += [*_paths("meta", meta), *_flags("trust-factor", trust_factor), *_switch("cold", cold)]
    return [*flags, *_switch("no-empty-cache", not empty_cache)]


def _flags(name: str, value: Union[float, Texts]) -> list[Text]:
    """``--NAME=VALUE``, once for each value."""
    if value is None:
        return []
    values = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return [f"--{name}={one}" for one in values]


def _paths(name: str, path: Optional[Run]) -> list[Text]:
    """``--NAME=PATH``; ``-`` is a file of that name here, not standard output."""
    if path is None:
        return []
    encoded = os.fsencode(path)
    return [f"--{name}=".encode() + (b"./-" if encoded == b"-" else encoded)]


def _switch(name: str, is_on: bool) -> list[Text]:
    return [f"--{name}"] if is_on else []


def _runs(runs: Runs, keep_going: bool = False) -> list[Text]:
    """The runs, the last of a command line; ``-`` is a file of that name here, not standard input."""
    several = [runs] if isinstance(runs, (str, bytes, os.PathLike)) else runs
    try:
        names = [os.fsencode(run) for run in several]
    except TypeError:
        raise TypeError(f"{runs!r} is no run: give the path of a tape or a snapshot") from None
    flags = ["--json", "--keep-going"] if keep_going else ["--json"]
    return [*flags, "--", *(b"./-" if name == b"-" else name for name in names)]
