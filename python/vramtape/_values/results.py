"""The contents of new tensors."""

from __future__ import annotations

from typing import Any

import torch

from . import shapes
from .compute import compute, is_small, keep
from .contents import contents, is_on_device, is_whole
from .draws import draw
from .table import DRAWN
from .uniform import ORDERED, inferred, uniform

_DRAWN = frozenset(name.partition(".")[0] for name in DRAWN)
_INDICES_ONLY = ("argmax", "argmin", "multinomial")
# Operators whose kernels fill or copy a tensor first, which is not its content in the end.
_FILLED_FIRST = ("scatter", "scatter_add", "index_add", "index_copy", "index_put", "masked_scatter", "histc")
# Operators that have a content although no argument has one.
_INFERRED = ("eq", "ne", *ORDERED, "sum", "index")


def note(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> None:
    """Sets the content of the result of an operator that makes new tensors."""
    if name == "index":
        shapes.note_masked(arguments, result)
    is_drawn = name in _DRAWN and (name in _INDICES_ONLY or not isinstance(result, torch.Tensor))
    if _is_known(arguments):
        computed = compute(operator, arguments, named) if is_small(result) else None
        if computed is not None:
            keep(result, computed)
            return
    elif name not in _INFERRED and not is_drawn and name not in _FILLED_FIRST:
        return
    if name in _FILLED_FIRST:
        contents.drop(result)
        return
    content = uniform(operator, name, arguments, named) or inferred(name, arguments, result)
    if content is not None and isinstance(result, torch.Tensor) and is_whole(result):
        if content.uniform is not None:
            content.uniform = content.uniform.to(result.dtype)
        contents.set(result, content)
    elif is_drawn:
        draw(operator, name, arguments, named, result)


def _is_known(arguments: Any) -> bool:
    """Whether something is known of an argument: of most tensors nothing is, which has to cost little."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            if _is_known(argument):
                return True
        elif is_on_device(argument) and contents.find(argument) is not None:
            return True
    return False
