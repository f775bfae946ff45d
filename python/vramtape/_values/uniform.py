"""Contents of large or partly unknown tensors: all elements equal, a share that is not zero, or evenly used indices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Optional

import torch

from .compute import is_small
from .contents import Content, contents, element, is_on_device, values
from .guesses import guesses, share
from .table import UNIFORM

# The density of a comparison with == of which nothing is known.
_EQUAL_DENSITY = 0.5
_INDEXING = ("index", "index_select")
ORDERED = ("lt", "le", "gt", "ge")
_REDUCTIONS = ("all", "any", "max", "min", "amax", "amin")
_OR = ("bitwise_or", "logical_or")
_AND = ("bitwise_and", "logical_and", "mul")


def uniform(operator: Any, name: str, arguments: Sequence[Any], named: dict[str, Any]) -> Optional[Content]:
    """The content of a result whose arguments have equal elements: one element is computed."""
    if name not in UNIFORM:
        return None
    is_guess = False

    def one_element(argument: Any) -> Any:
        nonlocal is_guess
        if isinstance(argument, (list, tuple)):
            return [one_element(one) for one in argument]
        if not isinstance(argument, torch.Tensor):
            return argument
        content = contents.find(argument) if is_on_device(argument) else None
        known = element(argument, content) if is_on_device(argument) else (argument if argument.dim() == 0 else None)
        if known is None:
            raise LookupError
        is_guess |= content is not None and content.is_guess
        return known.reshape([1] * argument.dim())

    try:
        if name in _INDEXING:
            host = one_element(arguments[0])
        elif name in _REDUCTIONS:
            if len(operator._schema.returns) > 1:
                return None  # With indices.
            host = one_element(arguments[0])
            host = host.bool() if name in ("all", "any") else host
        else:
            given = [one_element(argument) for argument in arguments]
            with torch._C._AutoDispatchBelowAutograd():
                host = operator(*given, **named)
    except (LookupError, RuntimeError):
        return None
    return Content(uniform=host.reshape(-1)[:1].clone().reshape(()), is_guess=is_guess)


def inferred(name: str, arguments: Sequence[Any], result: Any) -> Optional[Content]:
    """The content of a result of which an argument is not known."""
    if not isinstance(result, torch.Tensor):
        return None
    first = arguments[0]
    second = arguments[1] if len(arguments) > 1 else None
    if name in ("eq", "ne"):
        return _compared(name == "eq", first, second, result.numel())
    if name in ORDERED:
        return _ordered(name in ("lt", "le"), first, second, result.numel())
    if name in _OR or name in _AND:
        if any(_absorbs(one, name in _OR) for one in (first, second)):
            return _certain(name in _OR)
    elif name in _INDEXING:
        content = contents.find(first)
        if content and (content.density is not None or content.classes is not None):
            return Content(density=content.density, classes=content.classes, is_guess=True)
    elif name == "max" and result.dim() == 0:
        content = contents.find(first)
        if content and content.classes is not None:
            return Content(uniform=torch.tensor(content.classes - 1, device="cpu"), is_guess=True)
    elif name == "sum":
        return _counted(first, result)
    elif name == "mean":
        content = contents.find(first)
        if content and content.density is not None:
            return Content(uniform=torch.tensor(content.density, device="cpu"), is_guess=True)
    return None


def _compared(is_equal: bool, first: Any, second: Any, count: int) -> Optional[Content]:
    """Of == and !=: values are finite and no NaN, indices are spread evenly, and single values differ."""
    is_infinity = isinstance(second, float) and math.isinf(second)
    if first is second or is_infinity:
        return _certain(is_equal != is_infinity)
    for one in (first, second):
        content = contents.find(one) if is_on_device(one) else None
        if content is not None and content.classes is not None:
            equal = 1 / content.classes
            return Content(density=equal if is_equal else 1 - equal, is_guess=True)
    if count == 1:
        return Content(uniform=torch.tensor(not is_equal, device="cpu"), is_guess=True)
    return Content(density=_EQUAL_DENSITY, is_guess=True) if is_equal else None


def _ordered(is_below: bool, first: Any, second: Any, count: int) -> Optional[Content]:
    """Of one floating-point number and a constant: the number is more than 1 and at most 2, as guesses of it are."""
    if count != 1 or not isinstance(second, (int, float)) or not first.is_floating_point() or 1 < second <= 2:
        return None
    return Content(uniform=torch.tensor((second > 2) is is_below, device="cpu"), is_guess=True)


def _counted(mask: torch.Tensor, result: torch.Tensor) -> Optional[Content]:
    """The number of elements that are not zero: evenly spread over the elements of the result."""
    content = contents.find(mask)
    if content is None and mask.dtype == torch.bool:
        density = 0.0 if guesses.level == "low" else 1.0
    elif content is not None and content.density is not None:
        density = content.density
    else:
        return None
    total, places = share(mask.numel(), density), result.numel()
    if places == 0:
        return None
    if total % places == 0 or not is_small(result):
        return Content(uniform=torch.tensor(total // places, device="cpu"), is_guess=True)
    counts = spread(total, places).to(result.dtype).reshape(result.shape)
    return Content(mirror=counts.untyped_storage(), is_guess=True) if result.is_contiguous() else None


def spread(total: int, places: int) -> torch.Tensor:
    """A total, split as evenly as whole numbers allow."""
    counts = torch.full((places,), total // places, dtype=torch.int64, device="cpu")
    counts[: total % places] += 1
    return counts


def filled(changed: torch.Tensor, arguments: tuple[Any, ...]) -> Optional[Content]:
    """The content of a tensor after ``fill_`` or ``zero_``."""
    value = arguments[0] if arguments else 0
    if isinstance(value, torch.Tensor) and not value.is_cuda:
        value = value.item()
    if is_on_device(value):
        content = contents.find(value)
        known = values(value, content)
        if content is None or known is None:
            return None
        return Content(uniform=known.reshape(()).to(changed.dtype), is_guess=content.is_guess)
    return Content(uniform=_one(value, changed.dtype))


@functools.lru_cache(maxsize=256)
def _one(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of one element, which nothing changes."""
    return torch.tensor(value, device="cpu").to(dtype)


def one_hot(changed: torch.Tensor, dim: int, index: torch.Tensor, value: Any, **_: Any) -> Optional[Content]:
    """Ones scattered over zeros at indices that are not known: they are spread evenly."""
    zero = element(changed, contents.find(changed))
    if zero is None or bool(zero) or not value or not changed.dim():
        return None
    return Content(density=index.size(dim) / changed.size(dim), is_guess=True)


def _certain(value: bool) -> Content:
    return Content(uniform=torch.tensor(value, device="cpu"))


def _absorbs(argument: Any, wanted: bool) -> bool:
    """Whether every element is True for an `or`, or 0 for an `and` or a product, so that the other side is unused."""
    if not isinstance(argument, torch.Tensor) or not is_on_device(argument) or argument.is_floating_point():
        return False
    known = element(argument, contents.find(argument))
    if known is None or (wanted and known.dtype != torch.bool):
        return False
    return bool(known) is wanted
