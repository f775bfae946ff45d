"""Where the hooks of operators apply: in threads of Python, and in a backward pass only in code of Python.

The hooks have a dispatch key of their own, above autograd, which a thread includes. The threads of autograd inherit
the keys of the thread that begins a backward pass, so that it is excluded there: a hook would give the gradients
Python objects, and autograd, which then finds more than one reference, would copy them instead of reusing them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch
import torch.utils.checkpoint

# Unused by PyTorch, whose own tests of the dispatcher have it.
NAME = "TESTING_ONLY_GenericMode"
KEY = torch._C._parse_dispatch_key(NAME)

_fallthrough: Optional[Any] = None


def begin() -> None:
    """Includes the key in this thread, and in those of Python that begin from now on."""
    global _fallthrough
    _fallthrough = torch._C._dispatch_library("IMPL", "_", NAME)
    _fallthrough.fallback_fallthrough()  # Of all operators that have no hook.
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(KEY)
    for operator in torch._ops._higher_order_ops.values():
        operator.fallthrough(KEY)
    torch._C._dispatch_tls_set_dispatch_key_included(KEY, True)
    _follow_threads()
    engine = torch.autograd._engine_run_backward
    torch.autograd._engine_run_backward = _in_scope(engine, is_excluded=True)
    # Code of Python in a backward pass: the backward of a function of the program's own, and what a checkpoint computes
    # again, which needs the values of the first time.
    function = torch.autograd.function.BackwardCFunction
    function.apply = _in_scope(function.apply, is_excluded=False)
    _follow_checkpoints()


def _follow_threads() -> None:
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(run)
    def included(thread: threading.Thread) -> None:
        torch._C._dispatch_tls_set_dispatch_key_included(KEY, True)
        run(thread)

    threading.Thread._bootstrap_inner = included  # type: ignore[attr-defined]


def _follow_checkpoints() -> None:
    frame = torch.utils.checkpoint._CheckpointFrame
    make = frame.__init__

    @functools.wraps(make)
    def made(self: Any, recompute: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        make(self, _in_scope(recompute, is_excluded=False), *arguments, **named)

    frame.__init__ = made


def _in_scope(call: Callable[..., Any], is_excluded: bool) -> Callable[..., Any]:
    @functools.wraps(call)
    def scoped(*arguments: Any, **named: Any) -> Any:
        with excluded(is_excluded):
            return call(*arguments, **named)

    return scoped


@contextmanager
def excluded(is_excluded: bool) -> Iterator[None]:
    """Excludes the key in this thread until the end of the block, or includes it again."""
    before = torch._C._dispatch_tls_is_dispatch_key_excluded(KEY)
    torch._C._dispatch_tls_set_dispatch_key_excluded(KEY, is_excluded)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(KEY, before)
