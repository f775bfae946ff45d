"""The memory history: ``torch.cuda.memory._record_memory_history``, and what entries carry besides."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable, Optional

from .. import _runtime

NEVER, STATE, ALLOC, ALL = range(4)
_CONTEXTS = {None: NEVER, "state": STATE, "alloc": ALLOC, "all": ALL}
# By PyTorch's numbers.
ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
)
_ENTRIES_MAX = 2**63 - 1


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""

    def record(
        enabled: Optional[str],
        context: Optional[str],
        stacks: str,
        max_entries: int,  # Torch 2.7 has the arguments up to here.
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Sequence[str] = (),
        record_pinned_host_memory: bool = False,
        record_cuda: bool = True,
    ) -> None:
        _check(enabled in (None, "state", "all"), "expected state to be 'state', 'all', or None")
        _check(context in _CONTEXTS, "expected context to be 'state', 'alloc', 'all', or None")
        _check(stacks in ("python", "all"), "expected stacks to be 'python', or 'all'")
        entries_max = max_entries if enabled == "all" else 1
        _start(enabled is not None, _CONTEXTS[context], stacks == "all", entries_max, clear_history, skip_actions)

    def record_legacy(
        enabled: bool,
        record_context: bool,
        trace_alloc_max_entries: int,
        trace_alloc_record_context: bool,
        record_context_cpp: bool,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Sequence[str] = (),
        record_pinned_host_memory: bool = False,
        record_cuda: bool = True,
    ) -> None:
        context = ALLOC if trace_alloc_record_context else STATE if record_context else NEVER
        _start(enabled, context, record_context_cpp, trace_alloc_max_entries, clear_history, skip_actions)

    def _start(
        enabled: bool, context: int, is_native: bool, entries_max: int, clear: bool, skip_actions: Sequence[str]
    ) -> None:
        skipped = _bits(skip_actions)
        torch.cuda._lazy_init()
        if enabled:
            _runtime.call("history_start", context, is_native, min(entries_max, _ENTRIES_MAX), skipped, clear)
        else:
            _runtime.call("history_stop")

    def is_enabled() -> bool:
        is_running: bool = _runtime.call("history_is_running")
        return is_running

    def set_metadata(metadata: str) -> None:
        _runtime.call("set_memory_metadata", _text(metadata))

    def get_metadata() -> str:
        return _runtime.text("get_memory_metadata")

    def annotate(data_ptr: int, metadata: str) -> None:
        if _runtime.load().vramtape_annotate_memory(data_ptr, _text(metadata)) == _runtime.FAILED:
            raise RuntimeError(f"annotateMemory: no live allocation found at pointer {data_ptr:#x}")

    return {
        "_cuda_record_memory_history": record,
        "_cuda_record_memory_history_legacy": record_legacy,
        "_cuda_isHistoryEnabled": is_enabled,
        "_cuda_setMemoryMetadata": set_metadata,
        "_cuda_getMemoryMetadata": get_metadata,
        "_cuda_memoryMetadataSupported": lambda: True,
        "_cuda_annotateMemory": annotate,
    }


def _bits(actions: Sequence[str]) -> int:
    """A bit for each action."""
    for action in actions:
        _check(action in ACTIONS, f"Unknown TraceEntry action: {action}")
    return sum(1 << ACTIONS.index(action) for action in set(actions))


def _check(holds: bool, complaint: str) -> None:
    if not holds:
        raise RuntimeError(complaint)


def _text(metadata: str) -> bytes:
    if not isinstance(metadata, str):
        raise TypeError(f"the metadata is {metadata!r}; expected a str")
    return metadata.encode()
