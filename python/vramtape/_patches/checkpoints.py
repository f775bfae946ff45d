"""Pool checkpoints of inductor's CUDA graph trees (``torch.compile(mode="reduce-overhead")``), only in the bridge.

Going back to a checkpoint gives tensors new deleters, which only C++ inside torch can. Torch's own error says to file
an issue with torch; ours says what to do.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, NoReturn

_NAMES = ("_cuda_getCheckpointState", "_cuda_setCheckpointPoolState", "_cuda_checkPoolLiveAllocations")


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""
    return {name: _refusing(name) for name in _NAMES}


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*_arguments: Any) -> NoReturn:
        raise RuntimeError(
            f"torch._C.{name}: trees of CUDA graphs need vramtape's bridge (vramtape.install(route='bridge'); "
            "`vramtape doctor` says what it needs), or torch._inductor.config.triton.cudagraph_trees = False"
        )

    return refuse
