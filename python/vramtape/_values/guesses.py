"""Answers reads of values that are not known, and counts every guess (docs/values.md has the rules)."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# Sizes of PyTorch's allocator: blocks are multiples of the first; small, medium and large blocks are cut from segments
# of the other three.
_BLOCK_BYTES = 512
_SMALL_SEGMENT_BYTES, _MEDIUM_SEGMENT_BYTES, _LARGE_SEGMENT_BYTES = 2 << 20, 20 << 20, 2 << 20
_SMALL_MAX_BYTES, _MEDIUM_MAX_BYTES = 1 << 20, 10 << 20


@dataclass
class Guess:
    """The guesses of one operator."""

    count: int = 0
    # Of results whose shape was guessed.
    shapes: int = 0
    size_bytes: int = 0


@dataclass
class _Sized:
    """A live tensor whose shape was guessed: its bytes, and how many fewer and more it could have."""

    storage: StorageWeakRef
    size_bytes: int
    less_bytes: int
    more_bytes: int
    less_segment_bytes: int
    more_segment_bytes: int


@dataclass
class DeviceGuesses:
    """The most bytes of guessed shapes on one device at one time, and the most that they could differ by."""

    live_max_bytes: int = 0
    less_max_bytes: int = 0
    more_max_bytes: int = 0
    less_segments_max_bytes: int = 0
    more_segments_max_bytes: int = 0
    live: list[_Sized] = field(default_factory=list)

    def add(self, sized: _Sized) -> None:
        """Adds a tensor to those that are live."""
        self.live = [*(one for one in self.live if not one.storage.expired()), sized]
        self.live_max_bytes = max(self.live_max_bytes, sum(one.size_bytes for one in self.live))
        self.less_max_bytes = max(self.less_max_bytes, sum(one.less_bytes for one in self.live))
        self.more_max_bytes = max(self.more_max_bytes, sum(one.more_bytes for one in self.live))
        less_bytes = sum(one.less_segment_bytes for one in self.live)
        more_bytes = sum(one.more_segment_bytes for one in self.live)
        self.less_segments_max_bytes = max(self.less_segments_max_bytes, less_bytes)
        self.more_segments_max_bytes = max(self.more_segments_max_bytes, more_bytes)


@dataclass
class Guesses:
    """The guesses of this process."""

    level: str = "likely"
    by_operator: dict[str, Guess] = field(default_factory=dict)
    by_device: dict[int, DeviceGuesses] = field(default_factory=dict)
    # Failures of the model, by operator and exception.
    failures: dict[str, int] = field(default_factory=dict)
    _floats: int = 0
    _generator: Optional[torch.Generator] = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def value(self, operator: str, dtype: torch.dtype) -> Any:
        """A value that was read: True, 1, or a float that falls from 2 to 1 with each read, so that a loss improves."""
        with self._lock:
            self.note(operator)
            if dtype == torch.bool:
                return True
            if not (dtype.is_floating_point or dtype.is_complex):
                return 1
            self._floats += 1
            return 1 + 1 / self._floats

    def draw(self, size: torch.Size, dim: int, classes: int, is_distinct: bool) -> torch.Tensor:
        """Indices below ``classes``, all equally probable; distinct along a dimension if so wanted."""
        with self._lock:
            if self._generator is None:
                self._generator = torch.Generator("cpu").manual_seed(0)
            if not is_distinct or size[dim] < 2:
                return torch.randint(classes, size, generator=self._generator, device="cpu")
            rows = torch.rand([*size[:dim], classes, *size[dim:][1:]], generator=self._generator, device="cpu")
            return rows.argsort(dim).narrow(dim, 0, size[dim])

    def note(self, operator: str) -> None:
        """Counts a guess."""
        with self._lock:
            self.by_operator.setdefault(operator, Guess()).count += 1

    def fail(self, operator: str, error: Exception) -> None:
        """Counts an error in the model, after which the program has the value 0 or a result of size 0."""
        with self._lock:
            key = f"{operator}: {type(error).__name__}"
            self.failures[key] = self.failures.get(key, 0) + 1

    def elements(self, most: int, likely: int) -> int:
        """How many of at most so many elements there are at this level."""
        return {"low": 0, "high": most}.get(self.level, likely)

    def note_shape(self, operator: str, result: torch.Tensor, most_bytes: int, least_bytes: int = 0) -> None:
        """Counts a result whose shape was guessed, and which has at least and at most so many bytes."""
        size_bytes = result.numel() * result.element_size()
        most_bytes = max(most_bytes, size_bytes)
        with self._lock:
            self.note(operator)
            guess = self.by_operator[operator]
            guess.shapes += 1
            guess.size_bytes += size_bytes
            sized = _Sized(
                StorageWeakRef(result.untyped_storage()),
                _block(size_bytes),
                _block(size_bytes) - _block(least_bytes),
                _block(most_bytes) - _block(size_bytes),
                _segment(size_bytes) if size_bytes > least_bytes else 0,
                _segment(most_bytes) if most_bytes > size_bytes else 0,
            )
            self.by_device.setdefault(result.get_device(), DeviceGuesses()).add(sized)

    def describe(self) -> dict[str, Any]:
        """The guesses, as a process of a dry run writes them."""
        with self._lock:
            return {
                "operators": {name: vars(guess) for name, guess in self.by_operator.items()},
                "devices": {
                    str(number): {name: value for name, value in vars(device).items() if name != "live"}
                    for number, device in self.by_device.items()
                },
                "failures": self.failures,
            }


guesses = Guesses()


def share(most: int, density: float) -> int:
    """The number of elements that a density selects."""
    return math.ceil(most * density)


def _block(size_bytes: int) -> int:
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _segment(size_bytes: int) -> int:
    """The bytes of the segment that a block may need."""
    if size_bytes <= _SMALL_MAX_BYTES:
        return _SMALL_SEGMENT_BYTES if size_bytes else 0
    if size_bytes < _MEDIUM_MAX_BYTES:
        return _MEDIUM_SEGMENT_BYTES
    return -(-size_bytes // _LARGE_SEGMENT_BYTES) * _LARGE_SEGMENT_BYTES
