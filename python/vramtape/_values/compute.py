"""Computes operators on the host, where all arguments are known there and small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from .contents import KNOWN_MAX_BYTES, contents, is_on_device, tensors, values


class _Unknown(Exception):
    """An argument is not known on the host."""


def compute(operator: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Optional[tuple[Any, bool]]:
    """The result on the host, and whether it depends on a guess; None where an argument is not known or not small."""
    is_guess = False

    def host(argument: Any) -> Any:
        nonlocal is_guess
        if isinstance(argument, (list, tuple)):
            return [host(one) for one in argument]
        if not is_on_device(argument):
            return argument
        content = contents.find(argument)
        elements = values(argument, content)
        if content is None or elements is None or elements.numel() * elements.element_size() > KNOWN_MAX_BYTES:
            raise _Unknown
        is_guess |= content.is_guess
        return elements

    try:
        on_host = [host(argument) for argument in arguments]
    except _Unknown:
        return None
    named = {name: torch.device("cpu") if name == "device" else value for name, value in named.items()}
    with torch._C._AutoDispatchBelowAutograd():
        try:
            return operator(*on_host, **named), is_guess
        except (RuntimeError, IndexError):
            return None  # The device's kernel takes other arguments than the host's.


def compute_change(operator: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Optional[tuple[Any, bool]]:
    """The arguments after an operator that changes some of them, on the host; the contents stay as they are."""

    def changed(*on_host: Any, **given: Any) -> Any:
        copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in on_host]
        operator(*copies, **given)
        return copies

    return compute(changed, arguments, named)


def keep(result: Any, computed: tuple[Any, bool]) -> None:
    """Keeps what was computed as the content of new tensors."""
    for one, host in zip(tensors(result), tensors(computed[0])):
        if is_on_device(one) and one.shape == host.shape:
            contents.set_values(one, host, computed[1])


def is_small(result: Any) -> bool:
    """Whether new tensors are small enough to be computed."""
    return all(one.numel() * one.element_size() <= KNOWN_MAX_BYTES for one in tensors(result))
