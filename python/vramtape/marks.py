"""Steps, ranges and moments that a program puts on the tape.

They are records of every device's ring, between those of the memory they explain: ``vramtape top`` shows the step,
PyTorch's viewer the ranges. A mark costs a microsecond or two; without vramtape in the process it does nothing. Steps
and moments also note pinned host memory, if the program has some, for five microseconds more.
"""

from __future__ import annotations

import functools
import operator
import threading
from typing import Any, Callable, Optional, TypeVar

from . import _host_memory, _runtime

# VRAMTAPE_MARK_* of vramtape.h.
STEP, PHASE, RANGE_BEGIN, RANGE_END, INSTANT = range(5)
MODULE_BEGIN, MODULE_END, MODULE_BACKWARD, MODULE_OWNER = range(5, 9)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_lock = threading.Lock()
_steps = 0
# Whether the program counts its steps itself; the optimizer's are no steps then.
is_counted_by_program = False


def record(kind: int, name: str) -> None:
    """Puts a mark on the tape of every device that was used. Never raises: a mark is no reason to end a training."""
    try:
        # A NUL would end the text in C.
        _runtime.load().vramtape_mark(kind, name.replace("\0", " ").encode(errors="replace"))
    except ImportError:  # Said by who asked for vramtape.
        pass


def record_host_memory() -> None:
    """Puts PyTorch's statistics of pinned host memory on the tape, if some was pinned. Never raises."""
    line = _host_memory.line()
    if line is not None:
        record(INSTANT, line)


def step(number: Optional[int] = None) -> int:
    """Marks the beginning of a training step and returns its number.

    Without it each step of the first optimizer is one, if vramtape was installed; with it only these calls are.

    :param number: the step's number; one more than the last if left out, from 1 on
    :raises TypeError: when it is no integer
    """
    global is_counted_by_program
    if number is not None:
        try:
            number = operator.index(number)
        except TypeError:
            raise TypeError(f"vramtape.step({number!r}): the number of a step is an integer") from None
    is_counted_by_program = True
    return count_step(number)


def count_step(number: Optional[int] = None) -> int:
    """As :func:`step`, for steps that vramtape counts itself."""
    global _steps
    with _lock:
        _steps = _steps + 1 if number is None else number
        now = _steps
    record(STEP, f"step {now}")
    record_host_memory()
    return now


class mark:  # noqa: N801  It is used as a function is.
    """A name on the tape: of a moment, of a block, or of every call of a function.

    >>> vramtape.mark("epoch 2")
    >>> with vramtape.mark("validation"):
    ...     validate()
    >>> @vramtape.mark("sample")
    ... def sample(): ...
    """

    def __init__(self, name: str) -> None:
        if callable(name):
            self._is_range = True  # Nothing is marked by what is refused.
            raise TypeError("vramtape.mark takes a name: write @vramtape.mark('sample')")
        self._name = str(name)
        self._is_range = False

    def __enter__(self) -> mark:
        self._is_range = True
        record(RANGE_BEGIN, self._name)
        return self

    def __exit__(self, *_: object) -> None:
        record(RANGE_END, self._name)

    def __call__(self, function: _Function) -> _Function:
        self._is_range = True
        name = self._name

        @functools.wraps(function)
        def marked(*arguments: Any, **named: Any) -> Any:
            with mark(name):
                return function(*arguments, **named)

        return marked  # type: ignore[return-value]

    def __del__(self) -> None:
        # `mark(name)` alone is dropped at once, so only here is it known to be neither a block nor a function's.
        if not getattr(self, "_is_range", True):
            record(INSTANT, self._name)
            record_host_memory()
