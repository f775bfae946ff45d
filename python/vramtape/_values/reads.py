"""Operators that give a value to the program, besides copies to the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .compute import compute
from .contents import contents, values
from .guesses import guesses

_thread = threading.local()


@contextmanager
def inside_kernel() -> Iterator[None]:
    """Reads of the kernel in this block are its own."""
    before, _thread.is_inside = is_sizing(), True
    try:
        yield
    finally:
        _thread.is_inside = before


def is_sizing() -> bool:
    """Whether this thread is in such a block."""
    return getattr(_thread, "is_inside", False)


def is_inside_kernel() -> bool:
    """Whether a kernel reads, and not the program: kernels check their arguments, or size what is replaced later."""
    is_below_autograd = torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.ADInplaceOrView)
    return is_sizing() or bool(is_below_autograd)


@contextmanager
def unequal() -> Iterator[None]:
    """Tensors are not equal in this block, unless they are known: it checks that something is not the case."""
    before, _thread.is_unequal = getattr(_thread, "is_unequal", False), True
    try:
        yield
    finally:
        _thread.is_unequal = before


def scalar(_: Any, __: str, arguments: Any, ___: dict[str, Any], ____: Any) -> Any:
    """``item``, and every branch on a tensor."""
    (origin,) = arguments
    content = contents.find(origin)
    elements = values(origin, content)
    if (content is None or elements is None) and is_inside_kernel():
        return True if origin.dtype == torch.bool else None  # A check holds. Numbers are 0, as no range is empty then.
    if content is None or elements is None:
        return guesses.value("item", origin.dtype)
    if content.is_guess:
        guesses.note("item")
    return elements.reshape(-1)[0].item()


def equal(operator: Any, name: str, arguments: Any, named: dict[str, Any], _: Any) -> bool:
    """``torch.equal``: tensors of the same shape are equal."""
    computed = compute(operator, arguments, named)
    if (computed is None or computed[1]) and getattr(_thread, "is_unequal", False):
        return False
    if computed is None:
        guesses.note(name)
        return bool(arguments[0].shape == arguments[1].shape)
    if computed[1]:
        guesses.note(name)
    return bool(computed[0])
