"""The contents of tensors that an operator changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch

from .compute import compute_change
from .contents import KNOWN_MAX_BYTES, Content, contents, is_on_device, values, version
from .guesses import guesses
from .reads import is_sizing
from .uniform import filled, one_hot, uniform

# Larger copies from the host are not searched for equal elements.
_UNIFORM_MAX_BYTES = 4 << 20


def prepare(operator: Any, name: str, arguments: Any, named: dict[str, Any], _: Any) -> Optional[Callable[[], None]]:
    """The call that sets the content after the kernel has run; None where nothing is known."""
    changed = arguments[0]
    if name == "copy_":
        return _copy(changed, arguments[1])
    if name in ("fill_", "zero_"):
        content = filled(changed, arguments[1:])
    elif name == "scatter_" and values(arguments[2], contents.find(arguments[2])) is None:
        content = one_hot(*arguments)
    elif contents.find(changed) is None:
        return None
    elif changed.untyped_storage().nbytes() <= KNOWN_MAX_BYTES:
        return _computed(operator, arguments, named)
    else:
        content = uniform(operator, name, arguments, named)
    return _setting(changed, content)


def unversioned(_: Any, __: str, arguments: Any, ___: dict[str, Any], ____: Any) -> Optional[Content]:
    """The content of a tensor of inference mode, which has no version to say that it changes."""
    changed = arguments[0]
    return contents.find(changed) if changed.is_inference() and is_on_device(changed) else None


def drop_if_still(_: Any, __: str, arguments: Any, ___: dict[str, Any], old: Content) -> None:
    """Drops the content from before a change, unless the change has set another."""
    if contents.find(arguments[0]) is old:
        contents.drop(arguments[0])


def note_range(_: Any, __: str, ends: Any, ___: dict[str, Any], out: torch.Tensor) -> None:
    """Sets the content of a range that was written to a tensor."""
    if out.nbytes <= KNOWN_MAX_BYTES:
        contents.set_values(out, torch.arange(*ends, dtype=out.dtype, device="cpu"))


def _computed(operator: Any, arguments: Any, named: dict[str, Any]) -> Optional[Callable[[], None]]:
    """Keeps what was computed for the arguments that the operator changes."""
    computed = compute_change(operator, arguments, named)
    if computed is None:
        return None
    kinds = [kind.alias_info for kind in operator._schema.arguments[: len(arguments)]]
    changed = [at for at, alias in enumerate(kinds) if alias is not None and alias.is_write]
    before = [version(arguments[at]) for at in changed]

    def keep() -> None:
        for at, old in zip(changed, before):
            contents.set_values(arguments[at], computed[0][at], computed[1], old)

    return keep


def _setting(changed: torch.Tensor, content: Optional[Content]) -> Optional[Callable[[], None]]:
    if content is None:
        return None
    before = version(changed)
    return lambda: contents.set_content(changed, content, before)


def _copy(to: torch.Tensor, origin: Any) -> Optional[Callable[[], None]]:
    if not is_on_device(to):
        return lambda: _read(to, origin)
    if to.untyped_storage().nbytes() <= KNOWN_MAX_BYTES:
        content = contents.find(origin) if is_on_device(origin) else None
        elements = values(origin, content) if is_on_device(origin) else origin
        if elements is not None and elements.device.type == "cpu":
            is_guess, before = content is not None and content.is_guess, version(to)
            return lambda: contents.set_values(to, elements, is_guess, before)
    return _setting(to, _uniform_copy(to, origin))


def _uniform_copy(to: torch.Tensor, origin: torch.Tensor) -> Optional[Content]:
    """The content of a copy that has no mirror."""
    if is_on_device(origin):
        content = contents.find(origin)
        if content is None or content.mirror is not None:
            return None
        one = None if content.uniform is None else content.uniform.to(to.dtype)
        return Content(uniform=one, density=content.density, classes=content.classes, is_guess=content.is_guess)
    if origin.device.type != "cpu" or origin.is_floating_point() or not 0 < origin.nbytes <= _UNIFORM_MAX_BYTES:
        return None
    first = origin.reshape(-1)[0]
    return Content(uniform=first.to(to.dtype).clone()) if bool((origin == first).all()) else None


def _read(to: torch.Tensor, origin: torch.Tensor) -> None:
    """A copy to the host: what the program reads."""
    content = contents.find(origin)
    elements = values(origin, content)
    if elements is not None:
        to.copy_(elements)
    elif content is not None and content.uniform is not None:
        to.fill_(content.uniform)
    elif content is not None and content.classes is not None:
        to.copy_(torch.arange(to.numel(), device="cpu").remainder_(content.classes).reshape(to.shape))
    elif 0 < to.nbytes <= KNOWN_MAX_BYTES and not is_sizing():
        to.fill_(guesses.value("copy to the host", origin.dtype))
        return
    else:
        return  # A large copy, such as that of a checkpoint, stays 0.
    if content is not None and content.is_guess:
        guesses.note("copy to the host")
