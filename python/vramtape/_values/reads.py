"""Operators that give a value to the program, besides copies to the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .compute import compute
from .contents import contents, values
from .guesses import guesses

_thread = threading.local()


@contextmanager
def inside_kernel() -> Iterator[None]:
    """Reads of a kernel that sizes its own result, which is replaced, are no guesses."""
    _thread.is_inside = True
    try:
        yield
    finally:
        _thread.is_inside = False


def _scalar(_: Any, __: str, arguments: Any, ___: dict[str, Any], ____: Any) -> Any:
    """``item``, and every branch on a tensor."""
    (origin,) = arguments
    content = contents.find(origin)
    elements = values(origin, content)
    if content is None or elements is None:
        return None if getattr(_thread, "is_inside", False) else guesses.value("item", origin.dtype)
    if content.is_guess:
        guesses.note("item")
    return elements.reshape(-1)[0].item()


def _equal(operator: Any, name: str, arguments: Any, named: dict[str, Any], _: Any) -> bool:
    """``torch.equal``: tensors of the same shape are equal."""
    computed = compute(operator, arguments, named)
    if computed is None:
        guesses.note(name)
        return bool(arguments[0].shape == arguments[1].shape)
    if computed[1]:
        guesses.note(name)
    return bool(computed[0])


_MODELS = {"_local_scalar_dense": _scalar, "equal": _equal}


def answer(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> Any:
    """The answer of one of ``table.READS``; None where that of the kernel is right."""
    return _MODELS[name](operator, name, arguments, named, result)
