"""Whether a dry run fits on its GPU."""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass
from typing import Any, Optional

from .. import _lab
from .._query import Error, query
from .._sizes import show
from .job import Ended
from .measure import DeviceUse, Measured


class Verdict(enum.Enum):
    """The answer of a dry run; the value is its exit code. 2 is a command line that cannot be used."""

    FITS = 0
    DOES_NOT_FIT = 1
    FAILED = 3
    INCOMPLETE = 4

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


# The run has PyTorch's native allocator; the pools of `cudaMallocAsync` are a model of its requests.
_TRY_MORE = "cudaMallocAsync may serve it; name a larger GPU to see its peak"

# Of alternatives: the exit code of the whole is that of the first of these verdicts that one of them has.
BEST_FIRST = (Verdict.FITS, Verdict.DOES_NOT_FIT, Verdict.INCOMPLETE, Verdict.FAILED)


@dataclass(frozen=True)
class Judged:
    """The verdict, and the reasons, a sentence each without its full stop."""

    verdict: Verdict
    why: list[str]


def judge(ended: Ended, measured: Measured, margin: float) -> Judged:
    """Judges a dry run. ``margin`` is the share of the device that has to stay free.

    An out of memory is certain whatever else was left out. Anything that was left out is missing in the numbers: such
    a run never fits.
    """
    if measured.out_of_memory:
        why = _why_out_of_memory(measured)
        if any(use.is_stream_ordered for use in measured.devices):
            return Judged(Verdict.INCOMPLETE, [f"{why}, of PyTorch's native allocator: {_TRY_MORE}"])
        return Judged(Verdict.DOES_NOT_FIT, [why])
    missing = _missing(ended, measured)
    if missing:
        return Judged(Verdict.INCOMPLETE, missing)
    if ended.code != 0:
        return Judged(Verdict.FAILED, [f"the program {_end(ended.code)}; its message is above"])
    over = [text for text in (_over(use, margin) for use in measured.devices) if text] + measured.over
    if over:
        return Judged(Verdict.DOES_NOT_FIT, over + measured.unbounded)
    return Judged(Verdict.FITS, _handled(measured) + measured.unbounded)


def _missing(ended: Ended, measured: Measured) -> list[str]:
    missing = [f"not simulated: {name}" for name in measured.not_simulated]
    if ended.is_interrupted:
        missing.append("the dry run was interrupted: the numbers are those until then")
    elif ended.code == 0 and not measured.tapes:
        missing.append("nothing was allocated on a GPU by a Python with torch that the environment reaches")
    if ended.code == 0 or ended.is_interrupted:
        missing += measured.cut
    return missing


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _why_out_of_memory(measured: Measured) -> str:
    assert measured.out_of_memory is not None
    try:
        oom = _lab.explain(measured.out_of_memory, device=measured.out_of_memory_id)["oom"]
    except Error as error:
        return f"a request was refused; why is not known: {error}"
    if oom is None:
        return "a request was refused"
    request = show(oom["request"]["requested_bytes"])
    return f"a request of {request} is out of memory ({oom['verdict']}: {oom['why']})"


def is_enough(used_bytes: int, memory_bytes: int, margin: float) -> bool:
    """Whether so much memory leaves the margin of a device free."""
    return used_bytes + _kept_bytes(memory_bytes, margin) <= memory_bytes


def _kept_bytes(memory_bytes: int, margin: float) -> int:
    return int(memory_bytes * margin)


def _over(use: DeviceUse, margin: float) -> Optional[str]:
    """Why the upper bound and the margin exceed a device, although every request was served."""
    if is_enough(use.total.upper, use.memory_bytes, margin):
        return None
    kept_bytes = _kept_bytes(use.memory_bytes, margin)
    kept = f", and {show(kept_bytes)} are to stay free" if kept_bytes else ""
    return (
        f"device {use.device} may need {show(use.total.upper)} of {show(use.memory_bytes)}{kept}; "
        f"{show(use.total.expected)} are expected"
    )


def _handled(measured: Measured) -> list[str]:
    count = measured.handled_refusals
    if not count:
        return []
    noun = "request was" if count == 1 else "requests were"
    return [f"{count} {noun} refused, and the program went on, as a search for the largest batch does"]


def gpus() -> list[dict[str, Any]]:
    """The known GPUs."""
    known: Any = query(["fit", "--gpu", "list", "--json"], None, None)  # The one verb that answers with a list.
    return list(known)


def needed_bytes(measured: Measured) -> Optional[int]:
    """The least memory with which a replay of the fullest process is served, beside the context.

    None where that is not known: of a run that was out of memory, later requests are missing.
    """
    if measured.out_of_memory:
        return None
    fullest = measured.fullest
    if fullest is None or fullest.fullest is None:
        return None
    if fullest.is_stream_ordered:
        return fullest.reserved.upper + fullest.outside.upper
    fit = _lab.fit(fullest.fullest, config="", device=fullest.fullest_id, progress=True)
    row = fit["rows"][fit["recorded_row"]]
    if row["capacity_bytes"] is None:
        return None
    # Processes that share the device, and libraries, need what they needed.
    shared_bytes = fullest.reserved.upper - fullest.fullest_bytes + fullest.outside.upper
    return int(row["capacity_bytes"]) + shared_bytes


def smallest_gpu(needed_bytes: int, margin: float) -> Optional[dict[str, Any]]:
    """The smallest known GPU with so much memory beside the context; None where there is none.

    Other GPUs take other workspaces: it is an estimate until a dry run with that GPU.
    """
    for gpu in sorted(gpus(), key=lambda gpu: int(gpu["total_bytes"])):
        if needed_bytes <= gpu["usable_bytes"] - margin * gpu["total_bytes"]:
            spare_bytes = int(gpu["usable_bytes"]) - needed_bytes
            return {"name": gpu["name"], "spare_bytes": spare_bytes}
    return None
