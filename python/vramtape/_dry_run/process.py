"""The part of a dry run inside each process: it counts optimizer steps, and describes the devices at the end."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any, Optional

from .. import _text

# The folder of the dry run, and the number of optimizer steps after which a process ends.
FOLDER = "VRAMTAPE_DRY_RUN"
STEPS = "VRAMTAPE_DRY_RUN_STEPS"
# The folder in it of weights without data, which the dry run removes.
WEIGHTS = "weights"
# Seconds between two lines of progress.
_PROGRESS_S = 5.0
_TEXT_BYTES = 4096

_steps = 0
_wanted_steps: Optional[int] = None
# The optimizer whose steps are counted: the first.
_leader: Optional[weakref.ref[Any]] = None
_started_s = _said_s = 0.0
_said_steps = 0


class _StepsDone(SystemExit):
    """Ends the program well, past every ``except Exception``."""


def begin_if_dry_run() -> None:
    """Begins in a process of a dry run, after torch was imported.

    :raises ValueError: for a level of guesses that does not exist
    """
    global _wanted_steps, _started_s, _said_s
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    _wanted_steps = int(os.environ[STEPS]) if os.environ.get(STEPS) else None
    _started_s = _said_s = time.monotonic()
    from torch.optim import optimizer

    from .. import _weights  # These import torch.
    from .._values import hooks

    hooks.install()
    _weights.begin(Path(folder, WEIGHTS))
    optimizer.register_optimizer_step_post_hook(_after_step)
    torch = sys.modules["torch"]
    torch.cuda._lazy_call(_check_code)
    atexit.register(_describe, os.getpid(), Path(folder))


def _check_code() -> None:
    """Fails where this PyTorch has no code for the GPU, as its first kernel does on a GPU.

    The simulated driver does not read code.
    """
    torch = sys.modules["torch"]
    compiled = torch.cuda.get_arch_list()
    for device in range(torch.cuda.device_count()):
        capability = torch.cuda.get_device_capability(device)
        if compiled and not any(_runs(code, capability) for code in compiled):
            raise RuntimeError(
                "CUDA error: no kernel image is available for execution on the device: "
                f"torch {torch.__version__} has {', '.join(compiled)}, and the GPU is sm_{capability[0]}{capability[1]}"
            )


def _runs(code: str, capability: tuple[int, int]) -> bool:
    """Whether a GPU runs code for ``sm_86``, or ``compute_86``, which the driver compiles."""
    kind, _, number = code.partition("_")
    version = int("".join(filter(str.isdigit, number)))
    own = 10 * capability[0] + capability[1]
    return version <= own and (kind == "compute" or version // 10 == capability[0])


def _after_step(optimizer: Any, *_: Any) -> None:
    global _leader, _steps
    if sys.modules["torch"].compiler.is_compiling():
        return
    if _leader is None or _leader() is None:
        _leader = weakref.ref(optimizer)
    if _leader() is not optimizer:
        return
    _steps += 1
    _say_progress()
    if _steps == _wanted_steps:
        raise _StepsDone(0)


def _say_progress() -> None:
    global _said_s, _said_steps
    now_s = time.monotonic()
    if now_s - _said_s < _PROGRESS_S or os.environ.get("RANK", "0") != "0":
        return
    rate = (_steps - _said_steps) / (now_s - _said_s)
    of = f" of {_wanted_steps}" if _wanted_steps else ""
    _text.say(f"step {_steps}{of}, {rate:.1f} steps/s")
    _said_s, _said_steps = now_s, _steps


def _describe(pid: int, folder: Path) -> None:
    """Writes what the tapes do not have. A process that is killed writes nothing: its tape has to do."""
    if os.getpid() != pid:
        return
    from .._values.guesses import guesses
    from .._weights import notes

    torch = sys.modules["torch"]
    description = {
        "pid": pid,
        "torch": torch.__version__,
        "steps": _steps,
        "seconds": time.monotonic() - _started_s,
        "is_compiled": "torch._inductor.compile_fx" in sys.modules,
        "devices": _devices(),
        "guesses": guesses.describe(),
        "weights": notes.describe(),
    }
    part = folder / f".process-{pid}.json"
    try:
        part.write_text(json.dumps(description))
        part.rename(folder / f"process-{pid}.json")
    except OSError as error:
        _text.say(f"the dry run lacks the device total of process {pid}: {error}")


def _devices() -> list[dict[str, Any]]:
    """The devices of this process that it used, as the simulated driver describes them."""
    describe = getattr(ctypes.CDLL("libcuda.so.1"), "simcuda_describe_device", None)
    devices: list[dict[str, Any]] = []
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    while describe and describe(len(devices), buffer, len(buffer)) == 0:
        devices.append({"id": len(devices), **json.loads(buffer.value)})
    return [device for device in devices if device["is_active"]]
