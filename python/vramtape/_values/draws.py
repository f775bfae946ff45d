"""Results that are indices, such as those of ``argmax`` and ``topk``: drawn where the arguments are not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .compute import is_small
from .contents import Content, contents
from .guesses import guesses

# Rows of distinct indices are drawn by sorting up to so many random numbers.
_DRAW_MAX = 1 << 20

_REDUCING = ("argmax", "argmin", "max", "min")


def draw(operator: Any, name: str, arguments: Sequence[Any], named: dict[str, Any], result: Any) -> None:
    """Sets the content of the indices in a result: every index is equally frequent, distinct within a row."""
    given = {kind.name: one for kind, one in zip(operator._schema.arguments, arguments)}
    given.update(named)
    first = arguments[0]
    made = result if isinstance(result, torch.Tensor) else result[1]
    if not made.numel():
        return
    dim = given.get("dim", -1)
    if not first.dim() or dim is None:  # Of the whole tensor.
        _keep(made, 0, max(1, first.numel()), False)
        return
    dim %= first.dim()
    if name in _REDUCING:
        _keep(made, 0, first.size(dim), False)
    else:
        _keep(made, dim, first.size(dim), not given.get("replacement", False))


def _keep(made: torch.Tensor, dim: int, classes: int, is_distinct: bool) -> None:
    rows = made.numel() // max(1, made.size(dim)) if made.dim() else 1
    is_costly = is_distinct and made.dim() and made.size(dim) > 1 and rows * classes > _DRAW_MAX
    if not is_small(made) or is_costly:
        contents.set_content(made, Content(classes=classes, is_guess=True))
        return
    size = made.size() if made.dim() else torch.Size([1])
    host = guesses.draw(size, min(dim, len(size) - 1), classes, is_distinct).reshape(made.shape)
    contents.set_values(made, host, is_guess=True)
