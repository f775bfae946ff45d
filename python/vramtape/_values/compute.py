"""Carries known contents through operators: the operator is computed on the host, or a rule has its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch

from .contents import KNOWN_MAX_BYTES, Content, Contents, is_whole, values, version
from .guesses import EQUAL_DENSITY

# Operators whose element is a function of the elements at its place, or of equal elements: of uniform tensors, one
# element has the result.
UNIFORM = frozenset(
    """eq ne lt le gt ge add sub mul bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or logical_xor
    logical_not neg abs where clamp minimum maximum masked_fill all any max min amax amin isin index index_select cat
    sign fill_ add_ sub_ mul_ bitwise_and_ bitwise_or_ logical_and_ logical_or_ masked_fill_ zero_""".split()
)
# Reductions, whose result has other dimensions.
_REDUCTIONS = frozenset("all any max min amax amin".split())
_OR = frozenset("bitwise_or logical_or".split())
_AND = frozenset("bitwise_and logical_and mul".split())


class Carrier:
    """Carries the contents of arguments to results."""

    def __init__(self, contents: Contents, prefers: Callable[[], float]) -> None:
        self._contents = contents
        # The share of a mask of which nothing is known that is True.
        self._mask_density = prefers

    def known(self, operator: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Optional[tuple[list[Any], bool]]:
        """The arguments on the host, and whether one is a guess; None where one is not known or not small."""
        is_guess = False

        def host(argument: Any) -> Any:
            nonlocal is_guess
            if isinstance(argument, (list, tuple)):
                return [host(one) for one in argument]
            if isinstance(argument, torch.device):
                return torch.device("cpu")
            if not isinstance(argument, torch.Tensor) or not argument.is_cuda:
                return argument
            content = self._contents.find(argument)
            if content is None:
                raise LookupError
            if content.uniform is not None and argument.numel() * argument.element_size() > KNOWN_MAX_BYTES:
                raise LookupError
            elements = values(argument, content)
            if elements is None:
                raise LookupError
            is_guess |= content.is_guess
            return elements

        try:
            return [host(one) for one in arguments], is_guess
        except LookupError:
            return None

    def compute(self, operator: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Optional[tuple[Any, bool]]:
        """The result on the host, and whether it rests on a guess."""
        found = self.known(operator, arguments, named)
        if found is None:
            return None
        named = {name: torch.device("cpu") if name == "device" else value for name, value in named.items()}
        try:
            with torch._C._AutoDispatchBelowAutograd():
                return operator(*found[0], **named), found[1]
        except (RuntimeError, IndexError, NotImplementedError):
            return None  # The device's kernel takes other arguments than the host's.

    def carry(self, operator: Any, name: str, arguments: Sequence[Any], named: dict[str, Any], result: Any) -> None:
        """Sets the contents of the result of an operator that makes new tensors."""
        computed = self.compute(operator, arguments, named) if _is_small(result) else None
        if computed is not None:
            self._set(result, *computed)
            return
        content = self.uniform(operator, name, arguments, named) or self._rule(name, arguments, result)
        if content is not None and isinstance(result, torch.Tensor) and is_whole(result):
            content.version = version(result)
            if content.uniform is not None:
                content.uniform = content.uniform.to(result.dtype)
            self._contents.set(result, content)

    def _set(self, result: Any, computed: Any, is_guess: bool) -> None:
        made = result if isinstance(result, (list, tuple)) else [result]
        wanted = computed if isinstance(computed, (list, tuple)) else [computed]
        for one, host in zip(made, wanted):
            if isinstance(one, torch.Tensor) and one.is_cuda and one.shape == host.shape:
                self._contents.set_values(one, host, version(one), is_guess)

    def uniform(
        self, operator: Any, name: str, arguments: Sequence[Any], named: dict[str, Any]
    ) -> Optional[Content]:
        """The content of a result whose arguments are uniform: one element is computed."""
        if name not in UNIFORM:
            return None
        is_guess = False

        def one_element(argument: Any) -> Any:
            nonlocal is_guess
            if isinstance(argument, (list, tuple)):
                return [one_element(one) for one in argument]
            if not isinstance(argument, torch.Tensor):
                return argument
            if not argument.is_cuda:
                return argument if argument.dim() == 0 else _lookup_error()
            content = self._contents.find(argument)
            elements = _equal_elements(argument, content)
            if content is None or elements is None:
                raise LookupError
            is_guess |= content.is_guess
            return elements.reshape([1] * argument.dim())

        try:
            if name in ("index", "index_select"):
                host = one_element(arguments[0])
            elif name in _REDUCTIONS:
                host = _reduced(operator, name, one_element(arguments[0]))
            else:
                given = [one_element(argument) for argument in arguments]
                with torch._C._AutoDispatchBelowAutograd():
                    host = operator(*given, **named)
        except (LookupError, RuntimeError, NotImplementedError):
            return None
        return Content(0, uniform=host.reshape(-1)[:1].clone().reshape(()), is_guess=is_guess)

    def _rule(self, name: str, arguments: Sequence[Any], result: Any) -> Optional[Content]:
        """The content of a result of which an argument is not known."""
        if not isinstance(result, torch.Tensor):
            return None
        first = arguments[0]
        second = arguments[1] if len(arguments) > 1 else None
        if name in ("eq", "ne"):
            is_infinity = isinstance(second, float) and math.isinf(second)
            if first is second or is_infinity:
                return Content(0, uniform=torch.tensor((name == "eq") != is_infinity, device="cpu"))
            if name == "eq" and result.numel() == 1:
                return Content(0, uniform=torch.tensor(False, device="cpu"), is_guess=True)
            return Content(0, density=EQUAL_DENSITY, is_guess=True) if name == "eq" else None
        if name in _OR or name in _AND:
            absorbed = [_absorbs(one, self._contents, name in _OR) for one in (first, second)]
            if any(absorbed):
                return Content(0, uniform=torch.tensor(name in _OR, device="cpu"))
        if name == "index" or name == "index_select":
            content = self._contents.find(first)
            return Content(0, density=content.density, is_guess=True) if content and content.density else None
        if name == "sum" and first.dtype == torch.bool and result.numel() == 1:
            content = self._contents.find(first)
            share = self._mask_density() if content is None or content.density is None else content.density
            if content is None or content.density is not None:
                return Content(0, uniform=torch.tensor(math.ceil(first.numel() * share), device="cpu"), is_guess=True)
        return None


def _lookup_error() -> Any:
    raise LookupError


def _is_small(result: Any) -> bool:
    made = result if isinstance(result, (list, tuple)) else [result]
    return all(isinstance(one, torch.Tensor) and one.untyped_storage().nbytes() <= KNOWN_MAX_BYTES for one in made)


def _equal_elements(tensor: torch.Tensor, content: Optional[Content]) -> Optional[torch.Tensor]:
    """One element of a tensor whose elements are equal."""
    if content is None:
        return None
    if content.uniform is not None:
        return content.uniform
    if content.mirror is None or tensor.numel() == 0:
        return None
    elements = values(tensor, content)
    assert elements is not None
    first = elements.reshape(-1)[0]
    return first if bool((elements == first).all()) else None


def _reduced(operator: Any, name: str, element: torch.Tensor) -> torch.Tensor:
    if operator._schema.returns[0].type.kind() != "TensorType" or len(operator._schema.returns) > 1:
        raise LookupError  # With indices.
    return element.bool() if name in ("all", "any") else element


def _absorbs(argument: Any, contents: Contents, wanted: bool) -> bool:
    """Whether every element is True for an `or`, or 0 for an `and` or a product: the other side does not count."""
    if not isinstance(argument, torch.Tensor) or not argument.is_cuda or argument.is_floating_point():
        return False
    content = contents.find(argument)
    element = _equal_elements(argument, content)
    if element is None or (wanted and element.dtype != torch.bool):
        return False
    return bool(element) is wanted
