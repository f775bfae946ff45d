"""The memory that a dry run took: by device, from the tapes, and from the processes that came to their end."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .. import _lab
from .._query import Error
from .guessed import Guessed, guessed
from .job import NOT_SIMULATED

# Places of the code that are listed.
_HOLDERS_MAX = 5
# Orders of the driver's addresses that are tried.
_ADDRESS_ORDERS = 8
# How far runs of one compiled program differ on GPUs and here, depending on what Inductor's cache has
# (docs/results/2026-11-26-own-versions.md).
_COMPILED_ALLOCATED_SHARE = 0.001
_COMPILED_RESERVED_SHARE = 0.042
# The setting of PyTorch with which the driver's pools allocate.
_STREAM_ORDERED = re.compile(r"(?:^|,)\s*backend\s*:\s*cudaMallocAsync\s*(?:,|$)")


@dataclass(frozen=True)
class Range:
    """A number of bytes, and the bounds of what is not exact in it."""

    expected: int
    lower: int
    upper: int

    def __add__(self, other: Range) -> Range:
        return Range(self.expected + other.expected, self.lower + other.lower, self.upper + other.upper)

    def widened(self, less_bytes: int, more_bytes: int) -> Range:
        """The range where so many bytes could be missing or come in addition."""
        return Range(self.expected, max(0, self.lower - less_bytes), self.upper + more_bytes)


NOTHING = Range(0, 0, 0)


@dataclass
class DeviceUse:
    """The memory of one device. Of several processes on it, the peaks are added."""

    device: int
    gpu: str
    memory_bytes: int
    processes: int = 0
    allocated: Range = NOTHING
    reserved: Range = NOTHING
    context: Range = NOTHING
    # Of libraries, beside allocator and context.
    outside: Range = NOTHING
    context_source: Optional[str] = None
    # Whether the program allocates by `cudaMallocAsync`: reserved memory is an estimate of the model `async-pool`.
    is_stream_ordered: bool = False
    holders: list[dict[str, Any]] = field(default_factory=list)
    # The tape of the process that reserved most, and its peak.
    fullest: Optional[Path] = None
    fullest_id: int = 0
    fullest_bytes: int = 0
    fullest_allocated_bytes: int = 0

    @property
    def total(self) -> Range:
        """All memory of the device that is in use at the peak."""
        return self.reserved + self.context + self.outside


@dataclass
class Measured:
    """What the tapes of a dry run have."""

    tapes: list[Path] = field(default_factory=list)
    devices: list[DeviceUse] = field(default_factory=list)
    torch: Optional[str] = None
    steps: int = 0
    not_simulated: list[str] = field(default_factory=list)
    # The tape of the process that an out of memory ended.
    out_of_memory: Optional[Path] = None
    out_of_memory_id: int = 0
    # Requests that were refused and that the program handled.
    handled_refusals: int = 0
    # Why numbers are lower bounds.
    cut: list[str] = field(default_factory=list)
    guessed: Guessed = field(default_factory=Guessed)
    # Checkpoints of which only sizes were there: the name, the source of the sizes, and the bytes.
    weights: list[dict[str, Any]] = field(default_factory=list)
    # Why a run with other guesses does not fit, or is no bound.
    over: list[str] = field(default_factory=list)
    unbounded: list[str] = field(default_factory=list)

    @property
    def fullest(self) -> Optional[DeviceUse]:
        """The device whose total may be the largest."""
        return max(self.devices, key=lambda use: use.total.upper, default=None)


def measure(folder: Path, exit_code: int, nccl: Optional[Range] = None) -> Measured:
    """Reads the folder of a dry run whose program ended with this code.

    :param nccl: the memory of NCCL in each process that uses it; an estimate if left out

    :raises vramtape.Error: when a tape cannot be read
    """
    processes = {one["pid"]: one for one in map(_read, sorted(folder.glob("process-*.json")))}
    measured = Measured(tapes=sorted(folder.glob("*.vtape")))
    measured.steps = max((one["steps"] for one in processes.values()), default=0)
    by_device: dict[str, DeviceUse] = {}
    for tape in measured.tapes:
        info = _whole(tape)
        process = processes.get(info["meta"]["pid"])
        _note_end(measured, tape, info, exit_code, process is not None)
        measured.torch = info["meta"]["torch_version"] or measured.torch
        named = {device["id"]: device for device in info["meta"]["devices"]}
        described = {device["id"]: device for device in process["devices"]} if process else {}
        guesses = process["guesses"]["devices"] if process else {}
        is_stream_ordered = _STREAM_ORDERED.search(info["meta"]["alloc_conf"]) is not None
        for device in info["devices"]:
            at = device["id"]
            use = _add(by_device, tape, device, named.get(at, {}), described.get(at), nccl, is_stream_ordered)
            _widen(use, guesses.get(str(device["id"])))
            if process and process["is_compiled"]:
                allocated_bytes = int(device["peak_allocated_bytes"] * _COMPILED_ALLOCATED_SHARE)
                reserved_bytes = int(device["peak_reserved_bytes"] * _COMPILED_RESERVED_SHARE)
                use.allocated = use.allocated.widened(allocated_bytes, allocated_bytes)
                use.reserved = use.reserved.widened(reserved_bytes, reserved_bytes)
    measured.guessed = guessed([process["guesses"] for process in processes.values()])
    weights = {one["name"]: one for process in processes.values() for one in process["weights"]}
    measured.weights = [weights[name] for name in sorted(weights)]
    measured.devices = sorted(by_device.values(), key=lambda use: use.device)
    listed = folder / NOT_SIMULATED
    if listed.exists():
        measured.not_simulated = sorted(set(listed.read_text(errors="replace").splitlines()))
    return measured


def _read(path: Path) -> dict[str, Any]:
    description: dict[str, Any] = json.loads(path.read_text())
    return description


def _whole(tape: Path) -> dict[str, Any]:
    """Reads a tape. If its process was killed, the records in the process's ring are added to the tape first."""
    info = _lab.info(tape)
    if info["finished"] or info["meta"]["pid"] is None:
        return info
    whole = tape.with_suffix(".whole")
    try:
        _lab.recover(info["meta"]["pid"], whole, tape=tape, force=True)
    except Error:
        return info  # The tape has to do.
    whole.replace(tape)
    return _lab.info(tape)


def _note_end(measured: Measured, tape: Path, info: dict[str, Any], exit_code: int, is_described: bool) -> None:
    ending, end = info["ending"], info["meta"].get("end")
    measured.handled_refusals += ending["handled_refusals"]
    if ending["kind"] == "out_of_memory" and exit_code == 0 and end and end["kind"] == "exit":
        measured.handled_refusals += 1  # The last request, after which nothing was requested.
    elif ending["kind"] == "out_of_memory" and measured.out_of_memory is None:
        measured.out_of_memory = tape
        measured.out_of_memory_id = ending["refusal"]["device"] if ending["refusal"] else 0
    if not info["finished"]:
        measured.cut.append(f"{tape.name} has no end: its process was killed, or its disk was full")
    elif ending["kind"] == "killed" and not is_described:
        # One that was described was at its end: servers kill helpers that take long there.
        measured.cut.append(f"{tape.name} has no end: its process was killed, or called os._exit")
    lost = sum(device["lost"] for device in info["devices"])
    if lost:
        measured.cut.append(f"{tape.name} lacks {lost} records: raise ring_events in --conf")


def _add(
    by_device: dict[str, DeviceUse],
    tape: Path,
    device: dict[str, Any],
    named: dict[str, Any],
    described: Optional[dict[str, Any]],
    nccl: Optional[Range],
    is_stream_ordered: bool,
) -> DeviceUse:
    """Adds one process's part of a device; ``described`` is absent for a process that was killed."""
    described = described or {}
    key = named.get("uuid") or str(device["id"])
    number = described.get("machine_device", device["id"])
    memory_bytes = described.get("memory_bytes") or named.get("total_bytes") or 0
    gpu = described.get("gpu") or named.get("name") or ""
    use = by_device.setdefault(key, DeviceUse(number, gpu, memory_bytes))
    use.is_stream_ordered = use.is_stream_ordered or is_stream_ordered
    reserved = (_by_pools if is_stream_ordered else _reserved)(tape, device)
    context = described.get("context")
    use.processes += 1
    use.allocated += _exact(device["peak_allocated_bytes"])
    if context:
        use.context += Range(context["expected_bytes"], context["lower_bytes"], context["upper_bytes"])
        use.context_source = context["source"]
    context_bytes = context["expected_bytes"] if context else 0
    outside_bytes = described.get("peak_used_bytes", 0) - context_bytes - device["peak_reserved_bytes"]
    nccl_bytes = min(described.get("nccl_peak_bytes", 0), max(0, outside_bytes))
    use.outside += _exact(max(0, outside_bytes) - nccl_bytes)
    if nccl_bytes:
        # The estimate may be half or twice as much (docs/dry-run.md).
        use.outside += nccl or Range(nccl_bytes, nccl_bytes - nccl_bytes // 2, 2 * nccl_bytes)
    use.reserved += reserved
    if use.fullest is None or reserved.expected > use.fullest_bytes:
        peak = device["holders"]["peak"]
        rows = peak["rows"] if peak else []
        use.fullest, use.fullest_id, use.fullest_bytes = tape, device["id"], reserved.expected
        use.fullest_allocated_bytes = device["peak_allocated_bytes"]
        use.holders = [_holder(row) for row in rows[:_HOLDERS_MAX]]
    return use


def _widen(use: DeviceUse, guesses: Optional[dict[str, Any]]) -> None:
    """Widens the bounds by what guessed shapes could make of them."""
    if guesses:
        use.allocated = use.allocated.widened(guesses["less_max_bytes"], guesses["more_max_bytes"])
        use.reserved = use.reserved.widened(guesses["less_segments_max_bytes"], guesses["more_segments_max_bytes"])


def _reserved(tape: Path, device: dict[str, Any]) -> Range:
    """The peak of reserved memory, and its range over the addresses that a driver could give."""
    peak_bytes = device["peak_reserved_bytes"]
    if not device["records"]:
        return _exact(peak_bytes)
    range_ = _lab.replay(tape, device=device["id"], address_orders=_ADDRESS_ORDERS)["address_orders"]
    return Range(peak_bytes, min(range_["lower_bytes"], peak_bytes), max(range_["upper_bytes"], peak_bytes))


def _by_pools(tape: Path, device: dict[str, Any]) -> Range:
    """The peak of what pools of `cudaMallocAsync` reserve: a model's, whose share that is not in use may be none or
    twice as much (docs/dry-run.md)."""
    replay = _lab.replay(tape, "async-pool", device=device["id"])
    reserved_bytes, allocated_bytes = replay["peak_reserved_bytes"], replay["peak_allocated_bytes"]
    return Range(reserved_bytes, allocated_bytes, 2 * reserved_bytes - allocated_bytes)


def _exact(size_bytes: int) -> Range:
    return Range(size_bytes, size_bytes, size_bytes)


def _holder(row: dict[str, Any]) -> dict[str, Any]:
    return {"code": row["label"], "allocated_bytes": row["allocated_bytes"]}
