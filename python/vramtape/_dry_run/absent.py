"""One rank of a job in a dry run, where the other ranks are absent, or run without an exchange of data.

The simulated NCCL ends every operation at once, as if the other ranks did the same. What goes past NCCL is answered
here as if every rank held this rank's data: the store of the rendezvous, collectives of objects, and Gloo.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
from collections.abc import Iterator
from typing import Any, Callable

from .._rebind import replace
from . import process

# The value of a key that no rank of this process has set, such as NCCL's unique id.
_UNKNOWN = b"\1" * 128
# PyTorch's references do not keep the Python part of a store alive.
_stores: list[Any] = []
# In the errors of DDP for ranks whose parameters differ.
_DIFFERENT = ("DDP expects same model across all ranks", "of the same param in process")
# Threads of PyTorch that watch the other ranks would wait for them, at the end of the process too.
_SETTINGS = {
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
}


def begin_if_dry_run() -> None:
    """Answers for the other ranks in a process of a dry run, after torch was imported."""
    if not os.environ.get(process.FOLDER):
        return
    import torch.distributed as dist

    if not dist.is_available():
        return
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    c10d = dist.distributed_c10d
    c10d.rendezvous = _rendezvous
    c10d.ProcessGroupGloo = _gloo()
    dist._verify_params_across_processes = _without_comparison(dist._verify_params_across_processes)
    objects = (
        _all_gather_object,
        _gather_object,
        _broadcast_object_list,
        _scatter_object_list,
        _send_object_list,
        _recv_object_list,
    )
    replace({getattr(c10d, function.__name__[1:]): function for function in objects})


def _without_comparison(verify: Callable[..., None]) -> Callable[..., None]:
    """DDP's comparison of the ranks' parameters, which are the same here: its allocations without its verdict, as what
    it reads on the device are no values."""

    @functools.wraps(verify)
    def compared(*arguments: Any, **named: Any) -> None:
        try:
            verify(*arguments, **named)
        except RuntimeError as error:
            if not any(words in str(error) for words in _DIFFERENT):
                raise

    return compared


def _rendezvous(_url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Iterator[tuple[Any, int, int]]:
    """As ``torch.distributed.rendezvous`` does, with a store of this process."""
    rank = rank if rank >= 0 else int(os.environ["RANK"])
    world_size = world_size if world_size >= 0 else int(os.environ["WORLD_SIZE"])
    store = _store()(world_size)
    _stores.append(store)
    yield store, rank, world_size


@functools.cache
def _store() -> type:
    """The class of the store: torch's is there only with torch."""
    import torch.distributed as dist

    class Store(dist.Store):  # type: ignore[misc]
        """Holds this rank's keys, and answers for those of the others."""

        def __init__(self, world_size: int) -> None:
            super().__init__()
            self._world_size = world_size
            self._values: dict[str, bytes] = {}

        def set(self, key: str, value: Any) -> None:
            self._values[key] = _bytes(value)

        def get(self, key: str) -> bytes:
            """This rank's value of a key that differs in its numbers only, where another rank has not set it."""
            if key in self._values:
                return self._values[key]
            same = (value for known, value in self._values.items() if _shape(known) == _shape(key))
            return next(same, _UNKNOWN)

        def add(self, key: str, amount: int) -> int:
            """As if every rank had added as much."""
            total = int(self._values.get(key, b"0")) + amount * self._world_size
            self._values[key] = str(total).encode()
            return total

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            if key not in self._values or self._values[key] == _bytes(expected):
                self.set(key, desired)
            return self._values[key]

        def append(self, key: str, value: Any) -> None:
            self._values[key] = self._values.get(key, b"") + _bytes(value)

        def multi_get(self, keys: list[str]) -> list[bytes]:
            return [self.get(key) for key in keys]

        def multi_set(self, keys: list[str], values: list[Any]) -> None:
            for key, value in zip(keys, values):
                self.set(key, value)

        def check(self, _keys: list[str]) -> bool:
            return True

        def wait(self, *_: Any) -> None:
            pass

        def delete_key(self, key: str) -> bool:
            return self._values.pop(key, None) is not None

        def num_keys(self) -> int:
            return len(self._values)

        def has_extended_api(self) -> bool:
            return True

    return Store


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _shape(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _gloo() -> type:
    """A Gloo without other ranks: torch's own fake process group, which ends every operation at once."""
    from torch._C._distributed_c10d import FakeProcessGroup

    make = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
    FakeProcessGroup._set_sequence_number_for_group = lambda _: None  # Numbers of ranks are compared with it.

    class Kind(type):
        """PyTorch asks whether what it made is a Gloo."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, FakeProcessGroup)

    class ProcessGroupGloo(metaclass=Kind):
        def __new__(cls, _store: Any, rank: int, size: int, **_: Any) -> Any:
            return make(rank, size)

    return ProcessGroupGloo


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[:] = [_copy(obj) for _ in object_list]


def _gather_object(obj: Any, object_gather_list: Any = None, *_: Any, **__: Any) -> None:
    if object_gather_list is not None:
        object_gather_list[:] = [_copy(obj) for _ in object_gather_list]


def _broadcast_object_list(object_list: list[Any], *_: Any, **__: Any) -> None:
    object_list[:] = [_copy(value) for value in object_list]


def _scatter_object_list(output: list[Any], given: Any = None, *_: Any, **__: Any) -> None:
    """The first of the objects, where this rank has them; ranks get objects of one kind."""
    if given:
        output[0] = _copy(given[0])


def _send_object_list(*_: Any, **__: Any) -> None:
    pass


def _recv_object_list(*_: Any, **__: Any) -> None:
    raise RuntimeError(
        "vramtape dry-run: another rank sends objects that this one does not have, and it is absent. Stages of a "
        "pipeline do not ask for shapes that they are given: PipelineStage(..., input_args=..., output_args=...)"
    )
