"""Observing where the tracker is unavailable: PyTorch's own memory history is recorded, and becomes a tape at the end.

It lies in the process's memory until then, so that a process that is killed leaves nothing; there is no ring. A program
that records a history of its own decides what is in it.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from multiprocessing import util
from pathlib import Path
from typing import Any, Optional

from .. import _runtime, _tape, _text
from .._launch import tapes
from .._query import query
from . import Unavailable

# 140 bytes each, and at the end a dict of Python's for each. Of a longer run the tape has the last ones.
_ENTRIES_MAX = 2_000_000


def begin(torch: Any, reason: str) -> str:
    """Has the history recorded from the moment on when CUDA is initialised, and says what that lacks.

    :raises vramtape.routes.Unavailable: when no tape is wanted
    """
    conf = _runtime.answer("conf")
    if conf["record"] != "file":
        raise Unavailable(
            f"{reason}; without the tracker there can be a tape, of PyTorch's own history at the end: "
            'observe(tape="run.vtape")'
        )
    stacks = None if conf["stacks"] == "none" else conf["stacks"]
    torch.cuda._lazy_call(lambda: _record(torch, conf["tape"], conf["tape_replace"], stacks))
    return f"without its tracker: the tape is made of PyTorch's own history when the process ends, because {reason}"


def _record(torch: Any, tape: str, is_replaced: bool, stacks: Optional[str]) -> None:
    torch.cuda.memory._record_memory_history(context=stacks, stacks="python", max_entries=_ENTRIES_MAX)
    # Also at the end of a worker that multiprocessing forked.
    util.Finalize(None, _make_tape, (torch, tape, is_replaced), exitpriority=-100)


def _make_tape(torch: Any, tape: str, is_replaced: bool) -> None:
    path = Path(tape)
    try:
        tape = _tape.expand(tape)
        path = Path(tape)
        if is_replaced:
            _tape.check_replaced(tape)
        taken = torch.cuda.memory._snapshot()
        if not (taken["segments"] or any(taken["device_traces"])):
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".vramtape-") as scratch:
            snapshot, meta = Path(scratch) / "history.pickle", Path(scratch) / "meta.json"
            with open(snapshot, "wb") as file:
                pickle.dump(taken, file, protocol=4)
            total_bytes, fraction = torch.cuda.mem_get_info()[1], torch.cuda.get_per_process_memory_fraction()
            meta.write_text(json.dumps({"device_total_bytes": total_bytes, "fraction": fraction}))
            path = Path(tape if is_replaced else _tape.claim(tape))
            query(["import", "--json", "--force", "--meta", meta, "-o", path, "--", snapshot], None, None)
        if path != Path(tape):
            _text.warn(f"vramtape: the tape is {path}: {tape} exists", stacklevel=1)
        tapes.note(str(path))
    except Exception as error:  # The program has ended, and well perhaps.
        if path.is_file() and not path.is_symlink() and not path.stat().st_size:
            path.unlink()  # It was to hold the name.
        _text.warn(f"vramtape: PyTorch's history did not become the tape {path}: {error}", stacklevel=1)
