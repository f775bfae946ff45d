"""One dry run, from the start of the program to its result."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional, Union

from .. import _lab, _text
from .._files import check_place
from . import bounds as guessed_bounds
from . import calibrate as recorded
from . import nccl_log as nccl_logs
from .job import COMMANDS, Job, run_program
from .measure import Measured, measure
from .process import WEIGHTS
from .result import result
from .verdict import judge

OptionalPath = Union[str, Path, None]
# Called with a result while its tapes are there.
Then = Callable[[dict[str, Any], Measured], None]


def run_once(
    job: Job,
    margin: float,
    folder: OptionalPath = None,
    html: OptionalPath = None,
    calibrate: OptionalPath = None,
    then: Optional[Then] = None,
) -> dict[str, Any]:
    """Runs the program and judges it; ``then`` has the result while the tapes are there."""
    if html is not None:
        check_place(html)
    if calibrate is not None:
        recorded.check(calibrate)
    nccl = nccl_logs.read(job.nccl_log) if job.nccl_log else None
    kept = _made(folder)
    is_kept = folder is not None
    try:
        ended = run_program(job, kept)
        measured = measure(kept, ended.code, nccl)
        if job.is_bounded and ended.code == 0:
            guessed_bounds.widen(job, measured, nccl)
        judged = judge(ended, measured, margin)
        # The exception of an out of memory names the tape for `vramtape explain`.
        is_kept = is_kept or measured.out_of_memory is not None
        made = result(job, ended, measured, judged, margin)
        if not is_kept:
            made["tapes"] = []
        if calibrate is not None:
            made["calibration"] = recorded.compare(calibrate, measured)
        if html is not None:
            _write_page(measured, html)
        if then is not None:
            then(made, measured)
        return made
    finally:
        for gone in (kept / WEIGHTS, kept / COMMANDS) if is_kept else (kept,):
            shutil.rmtree(gone, ignore_errors=True)


def run_apart(job: Job, margin: float, then: Optional[Then] = None) -> dict[str, Any]:
    """One of several runs: its tapes are removed."""
    with tempfile.TemporaryDirectory(prefix="vramtape-dry-run-") as folder:
        return {**run_once(job, margin, Path(folder), then=then), "tapes": []}


def _made(named: OptionalPath) -> Path:
    """The folder of the tapes: there, and empty."""
    if named is None:
        return Path(tempfile.mkdtemp(prefix="vramtape-dry-run-"))
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a folder that is, or that does not exist")
    return folder


def _write_page(measured: Measured, html: OptionalPath) -> None:
    fullest = measured.fullest
    if fullest is None or fullest.fullest is None:
        _text.say(f"{html} is not written: nothing was allocated on a GPU")
        return
    _lab.explain(fullest.fullest, device=fullest.fullest_id, html=html, force=True)
