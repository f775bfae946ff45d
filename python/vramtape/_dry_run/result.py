"""The result of a dry run: what ``--json`` writes and ``vramtape.dry_run`` returns (docs/schema/dry-run.json)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .. import _lab
from .._query import Error
from .job import Ended, Job
from .measure import DeviceUse, Measured, Range
from .verdict import Judged, Verdict, needed_bytes, smallest_gpu

# Of the form of the result.
VERSION = 1


def result(job: Job, ended: Ended, measured: Measured, judged: Judged, margin: float) -> dict[str, Any]:
    """The result as JSON has it."""
    is_whole = judged.verdict in (Verdict.FITS, Verdict.DOES_NOT_FIT)
    needed = needed_bytes(measured) if is_whole else None
    return {
        "version": VERSION,
        "command": job.command,
        "gpu": asdict(job.gpu),
        "torch_version": measured.torch,
        "verdict": judged.verdict.words,
        "exit_code": judged.verdict.value,
        "why": judged.why,
        "margin": margin,
        "program": {"exit_code": ended.code, "seconds": ended.seconds, "steps": measured.steps},
        "devices": [_device(use) for use in measured.devices],
        "needed_bytes": needed,
        "smallest_gpu": None if needed is None else smallest_gpu(needed, margin),
        "not_simulated": measured.not_simulated,
        "handled_refusals": measured.handled_refusals,
        "guesses": asdict(measured.guessed),
        "weights": measured.weights,
        "calibration": None,
        "remedies": _remedies(measured),
        "tapes": [str(tape) for tape in measured.tapes],
    }


def _device(use: DeviceUse) -> dict[str, Any]:
    numbers = {
        "peak_allocated_bytes": use.allocated,
        "peak_reserved_bytes": use.reserved,
        "context_bytes": use.context,
        "outside_bytes": use.outside,
        "device_total_bytes": use.total,
    }
    inexact = {name: number for name, number in numbers.items() if number.lower != number.upper}
    return {
        "device": use.device,
        "gpu": use.gpu,
        "memory_bytes": use.memory_bytes,
        "processes": use.processes,
        **{name: number.expected for name, number in numbers.items()},
        "bounds": {name: _bounds(number) for name, number in inexact.items()},
        "context_source": use.context_source,
        "allocator": "cudaMallocAsync" if use.is_stream_ordered else "native",
        "holders": use.holders,
    }


def _bounds(number: Range) -> dict[str, int]:
    return {"lower": number.lower, "upper": number.upper}


def _remedies(measured: Measured) -> list[str]:
    if measured.out_of_memory is None:
        return []
    try:
        oom = _lab.explain(measured.out_of_memory, device=measured.out_of_memory_id)["oom"]
    except Error:
        return []
    return [remedy["text"] for remedy in oom["remedies"]] if oom else []
