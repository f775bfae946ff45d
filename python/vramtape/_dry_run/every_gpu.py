"""``--gpu all``: one dry run for each compute capability, and an answer for every known GPU of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._sizes import show
from .._text import one_line
from . import peaks
from .job import Gpu, Job
from .result import VERSION
from .text import aligned
from .verdict import BEST_FIRST, Verdict, gpus

# The name that stands for all.
ALL = "all"
_HEAD = ("gpu", "memory", "capability", *peaks.HEAD, "verdict")


def every_gpu(job: Job, margin: float, run: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
    """Runs a job on the largest GPU of each compute capability with ``run``; the answers are those of replays."""
    rows: list[dict[str, Any]] = []
    made: dict[str, Any] = {}
    for group in _by_capability().values():
        made = run(replace(job, gpu=Gpu(group[0]["name"], job.gpu.count, is_default=False)))
        rows += [_row(gpu, made, margin) for gpu in group]
    rows.sort(key=lambda row: (int(row["memory_bytes"]), str(row["gpu"])))
    verdicts = {row["verdict"] for row in rows}
    first = next(verdict for verdict in BEST_FIRST if verdict.words in verdicts)
    return {
        "version": VERSION,
        "command": job.command,
        "torch_version": made["torch_version"],
        "margin": margin,
        "exit_code": first.value,
        "gpus": rows,
    }


def _by_capability() -> dict[str, list[dict[str, Any]]]:
    """The GPUs of each compute capability, the largest first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for gpu in sorted(gpus(), key=lambda gpu: -int(gpu["total_bytes"])):
        groups.setdefault(gpu["compute_capability"], []).append(gpu)
    return groups


def _row(gpu: dict[str, Any], made: dict[str, Any], margin: float) -> dict[str, Any]:
    """The answer for a GPU, from the run on the largest one of its compute capability."""
    verdict, why, needed_bytes = made["verdict"], made["why"], made["needed_bytes"]
    if needed_bytes is not None:
        is_enough = needed_bytes <= gpu["usable_bytes"] - margin * gpu["total_bytes"]
        verdict = (Verdict.FITS if is_enough else Verdict.DOES_NOT_FIT).words
        why = [] if is_enough else [f"{show(needed_bytes)} are needed beside the context"]
    fullest = peaks.fullest(made)
    found = peaks.peaks(fullest)
    if fullest is not None:
        total_bytes = fullest["device_total_bytes"] - fullest["context_bytes"]
        found["device_total_bytes"] = total_bytes + fullest["processes"] * gpu["context_bytes"]
    return {
        "gpu": gpu["name"],
        "compute_capability": gpu["compute_capability"],
        "memory_bytes": gpu["total_bytes"],
        "ran_on": made["gpu"]["name"],
        "verdict": verdict,
        "why": why,
        "needed_bytes": needed_bytes,
        **found,
    }


def text(answer: dict[str, Any]) -> str:
    """The answers as lines."""
    fitting = [row["gpu"] for row in answer["gpus"] if row["verdict"] == Verdict.FITS.words]
    first = "fits on none"
    if fitting:
        first = f"fits on {len(fitting)} of {len(answer['gpus'])} GPUs, the smallest is {fitting[0]}"
    return "\n".join([first, "", *aligned(_cells(answer)), "", *_notes(answer)])


def markdown(answer: dict[str, Any]) -> str:
    """The answers for a pull request."""
    head, *rows = ["| " + " | ".join(row) + " |" for row in _cells(answer)]
    return "\n".join([head, "|---|" + "---:|" * (len(_HEAD) - 2) + "---|", *rows, "", *_notes(answer)]) + "\n"


def _cells(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = answer["gpus"]
    start = [(row["gpu"], show(row["memory_bytes"]), row["compute_capability"]) for row in rows]
    return [_HEAD, *((*cells, *peaks.sizes(row), row["verdict"]) for cells, row in zip(start, rows))]


def _notes(answer: dict[str, Any]) -> list[str]:
    """Why a run is no answer, once for each run; and how the table was made."""
    unclear = (Verdict.FAILED.words, Verdict.INCOMPLETE.words)
    rows = [row for row in answer["gpus"] if row["verdict"] in unclear]
    found = {(row["compute_capability"], one_line("; ".join(row["why"]))) for row in rows}
    runs = len({row["ran_on"] for row in answer["gpus"]})
    return [
        *(f"capability {capability}: {why}" for capability, why in sorted(found)),
        f"PyTorch {answer['torch_version']}; {runs} runs, on the largest GPU of each capability; the others by replay",
    ]
