"""Answers reads of values that are not known, and counts them (docs/values.md has the rules)."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# likely, low, high, or off.
VARIABLE = "VRAMTAPE_VALUES"
LEVELS = ("likely", "low", "high")
# Of a mask that a comparison with == made.
EQUAL_DENSITY = 0.5
# The allocator's unit: blocks are multiples of it.
_UNIT_BYTES = 512


@dataclass
class Guess:
    """The guesses for one operator."""

    count: int = 0
    # Of results whose shape was guessed.
    size_bytes: int = 0


@dataclass
class Guesses:
    """What was guessed in this process."""

    level: str = "likely"
    by_operator: dict[str, Guess] = field(default_factory=dict)
    # The most bytes at one time of tensors whose shape was guessed, and how many more they could have had.
    live_max_bytes: int = 0
    more_max_bytes: int = 0
    _floats: int = 0
    _live: list[tuple[StorageWeakRef, int, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def value(self, operator: str, dtype: torch.dtype) -> Any:
        """A value that was read: True, 1, or a float that falls from 2 to 1 with each read, so that a loss improves."""
        with self._lock:
            self.by_operator.setdefault(operator, Guess()).count += 1
            if dtype == torch.bool:
                return True
            if not (dtype.is_floating_point or dtype.is_complex):
                return 1
            self._floats += 1
            return 1 + 1 / self._floats

    def note(self, operator: str) -> None:
        """Counts a guess without a shape."""
        with self._lock:
            self.by_operator.setdefault(operator, Guess()).count += 1

    def elements(self, most: int, density: float) -> int:
        """How many of at most so many elements there are."""
        if self.level == "low":
            return 0
        return most if self.level == "high" else math.ceil(most * density)

    def note_shape(self, operator: str, result: torch.Tensor, most_bytes: int) -> None:
        """Counts a result whose shape was guessed, and which has at most so many bytes."""
        size_bytes = result.numel() * result.element_size()
        taken_bytes = _rounded(size_bytes)
        with self._lock:
            guess = self.by_operator.setdefault(operator, Guess())
            guess.count += 1
            guess.size_bytes += size_bytes
            self._live = [entry for entry in self._live if not entry[0].expired()]
            more_bytes = max(0, _rounded(most_bytes) - taken_bytes)
            self._live.append((StorageWeakRef(result.untyped_storage()), taken_bytes, more_bytes))
            self.live_max_bytes = max(self.live_max_bytes, sum(entry[1] for entry in self._live))
            self.more_max_bytes = max(self.more_max_bytes, sum(entry[2] for entry in self._live))

    def describe(self) -> dict[str, Any]:
        """The guesses as the result of a dry run has them."""
        with self._lock:
            rows = [
                {"operator": name, "count": guess.count, "bytes": guess.size_bytes}
                for name, guess in sorted(self.by_operator.items())
            ]
        return {"rows": rows, "live_max_bytes": self.live_max_bytes, "more_max_bytes": self.more_max_bytes}


def level() -> str:
    """The wanted guesses.

    :raises ValueError: for a word that is none
    """
    word = os.environ.get(VARIABLE) or "likely"
    if word not in (*LEVELS, "off"):
        raise ValueError(f"{VARIABLE}={word}: write {', '.join(LEVELS)} or off")
    return word


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _UNIT_BYTES) * _UNIT_BYTES
