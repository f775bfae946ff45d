"""Snapshots: ``torch.cuda.memory_snapshot``, ``_snapshot``, ``_dump_snapshot`` and ``MemPool.snapshot``."""

from __future__ import annotations

import ctypes
import json
from types import ModuleType
from typing import Any, Callable, Optional

from .. import _runtime
from . import settings
from .arguments import device_count, only_known, version_of
from .history import ACTIONS

_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""
    version = version_of(torch)

    def memory_snapshot(arguments: Any = None, /) -> dict[str, Any]:
        pool, with_traces = _arguments(arguments)
        return _snapshot(pool, with_traces, device_count(torch), version)

    def memory_snapshot_of_all() -> dict[str, Any]:
        return memory_snapshot(None)

    def allocation_traceback(data_ptr: int) -> Optional[list[dict[str, Any]]]:
        if data_ptr == 0:
            return None
        frames = _runtime.answer("allocation_traceback", data_ptr)
        return frames and [_frame(*frame) for frame in frames]

    return {
        "_cuda_memorySnapshot": memory_snapshot if version > (2, 7) else memory_snapshot_of_all,
        "_cuda_allocationTraceback": allocation_traceback,
    }


def segments_of(pool: tuple[int, int]) -> list[dict[str, Any]]:
    """The segments of one pool on all devices."""
    segments: list[dict[str, Any]] = _snapshot(pool, False, 0, (0,))["segments"]
    return segments


def _arguments(arguments: Any) -> tuple[tuple[int, int], bool]:
    """The pool, (0, 0) for all, and whether the history is wanted."""
    if arguments is None:
        return (0, 0), True
    if not isinstance(arguments, tuple):
        raise RuntimeError("Expected tuple or None")
    if len(arguments) not in (2, 3):
        raise RuntimeError("Expected tuple of size 2 or 3")
    if not all(isinstance(number, int) for number in arguments[:2]):
        raise RuntimeError("mempool_id elements must be integers")
    return arguments[:2], len(arguments) == 2 or bool(arguments[2])


def _snapshot(pool: tuple[int, int], with_traces: bool, devices: int, version: tuple[int, ...]) -> dict[str, Any]:
    taken = _take(pool, with_traces)
    frames = [_frame(*frame) for frame in taken.get("frames", ())]
    # One list for each stack, which all who have it share: a pickle then has it once.
    stacks = {int(number): [frames[at] for at in places] for number, places in taken.get("stacks", {}).items()}
    traces = [[_entry(row, stacks, version) for row in rows] for rows in taken["device_traces"]]
    if with_traces:
        traces.extend([] for _ in range(len(traces), devices))
    snapshot = {
        "segments": [_segment(segment, stacks) for segment in taken["segments"]],
        "device_traces": traces,
        "allocator_settings": only_known(settings.with_pinned(taken["settings"]), version),
        "external_annotations": [],
        # Of pinned host memory, which stays PyTorch's own.
        "host_segments": [],
        "host_traces": [],
    }
    return only_known(snapshot, version)


def _take(pool: tuple[int, int], with_traces: bool) -> dict[str, Any]:
    """The library's answer. It is given out once, since each snapshot leaves an entry in the history."""
    taken: list[bytes] = []
    take = _TAKE(lambda _user, text, length: taken.append(ctypes.string_at(text, length)))
    _runtime.call("take_snapshot", *pool, with_traces, take, None)
    answer: dict[str, Any] = json.loads(taken[0])
    return answer


def _segment(segment: dict[str, Any], stacks: dict[int, list[Any]]) -> dict[str, Any]:
    """A segment with its keys in PyTorch's order."""
    blocks, stack = segment.pop("blocks"), segment.pop("stack", 0)
    segment["segment_pool_id"] = tuple(segment["segment_pool_id"])
    segment["frames"] = stacks.get(stack, [])
    segment["blocks"] = blocks
    for block in blocks:
        block["frames"] = stacks.get(block.pop("stack", 0), [])
    return segment


def _entry(row: list[Any], stacks: dict[int, list[Any]], version: tuple[int, ...]) -> dict[str, Any]:
    action, addr, size, stream, pool_0, pool_1, time_us, stack, metadata = row
    name = ACTIONS[action]
    entry = {
        "action": name,
        "device_free" if name == "oom" else "addr": addr,
        "size": size,
        "stream": stream,
        "time_us": time_us,
        "compile_context": "N/A",
        "user_metadata": metadata or "",
        "pool_id": (pool_0, pool_1),
    }
    entry = only_known(entry, version)
    if stack in stacks:
        entry["frames"] = stacks[stack]
    return entry


def _frame(name: str, filename: str, line: int) -> dict[str, Any]:
    """A frame as PyTorch has it: of Python's functions the name alone, where ours have their class besides."""
    is_python = "::" not in name and "(" not in name
    return {"name": name.rpartition(".")[2] if is_python else name, "filename": filename, "line": line}
