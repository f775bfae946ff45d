"""Hooks the operators that make, carry or read values.

They are hooked at the dispatch key ``BackendSelect``: below autograd and tracing, above the kernels. So the real kernel
runs with its real allocations, and no other operator pays. CPU tensors pass through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Optional

import torch

from . import contents as known
from . import guesses as guessing
from .compute import Carrier
from .contents import Content, Contents, version
from .guesses import Guesses

_KEY = torch._C.DispatchKey.BackendSelect
_IN_PLACE_KEY = torch._C.DispatchKey.ADInplaceOrView
# Larger copies from the host are not searched for equal elements.
_UNIFORM_MAX_BYTES = 4 << 20
# Operators that make new tensors, and are computed on the host where their arguments are known.
CARRIED = """full_like zeros_like ones_like add.Tensor sub.Tensor mul.Tensor remainder.Tensor
    remainder.Scalar floor_divide div.Tensor div.Tensor_mode eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar
    le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor ge.Scalar bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor
    bitwise_not logical_and logical_or logical_xor logical_not neg abs where.self clamp minimum maximum
    masked_fill.Scalar cumsum sum sum.dim_IntList prod all all.dim any any.dim max min max.dim min.dim amax amin argmax
    argmin cat index.Tensor index_select gather isin.Tensor_Tensor isin.Tensor_Scalar scatter.value sort sort.stable
    topk tril triu flip roll""".split()
# Operators that change their first argument.
CHANGING = """fill_.Scalar fill_.Tensor zero_ add_.Tensor sub_.Tensor mul_.Tensor bitwise_and_.Tensor bitwise_or_.Tensor
    logical_and_ logical_or_ masked_fill_.Scalar scatter_.value index_fill_.int_Scalar _amp_update_scale_""".split()

_library: Optional[torch.library.Library] = None
# References to a tensor that only a kernel has, by hook.
_fresh: dict[str, int] = {}
guesses = Guesses()
_contents = Contents()


def _mask_density() -> float:
    return {"low": 0.0}.get(guesses.level, 1.0)


_carrier = Carrier(_contents, _mask_density)


def install() -> None:
    """Hooks the operators of this process, unless the environment says ``off``.

    :raises ValueError: for a level that there is not
    """
    global _library
    level = guessing.level()
    if _library is not None or level == "off":
        return
    guesses.level = level
    _library = torch.library.Library("aten", "IMPL")
    for name in CARRIED:
        _hook(name, _carried)
    for name in CHANGING:
        _hook(name, _changing)
    for name, make in _OTHERS.items():
        _hook(name, make)
    torch.full((1,), 1.0, device="cpu").clone()
    torch.arange(2, device="cpu")


def _hook(name: str, make: Callable[[Any, str], Callable[..., Any]]) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if operator is not None and _library is not None:
        _library.impl(name, _untraced(make(operator, packet)), "BackendSelect", with_keyset=True)


def _untraced(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, which Dynamo does not trace: it traces every Python frame of its thread, also those under a kernel."""
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(hook.__code__, frames._FrameExecStrategy(skip, skip))
    return hook


def _is_on_device(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(isinstance(one, torch.Tensor) and one.is_cuda for one in argument)
    return isinstance(argument, torch.Tensor) and argument.is_cuda


def _redispatch(operator: Any, keys: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """Calls the kernel. A number where the operator takes a tensor needs the call that converts it."""
    if any(isinstance(one, (int, float, complex)) for one in arguments):
        kinds = operator._schema.arguments
        arguments = [
            _number_as_tensor(one, arguments) if kinds[at].type.kind() == "TensorType" else one
            for at, one in enumerate(arguments)
        ]
    return operator.redispatch(keys.remove(_KEY), *arguments, **named)


def _number_as_tensor(number: Any, arguments: Any) -> Any:
    """A number beside a tensor, as a tensor that promotes as the number does; and an argument that is none."""
    if not isinstance(number, (int, float, complex)):
        return number
    other = next((one for one in arguments if isinstance(one, torch.Tensor)), None)
    dtype = torch.result_type(other, number) if other is not None else None
    if other is not None and other.dim() and dtype == other.dtype:  # Kernels take the number with more precision than the tensor has.
        if dtype.is_complex or dtype.is_floating_point:
            dtype = torch.complex128 if dtype.is_complex else torch.float64
        elif dtype != torch.bool:
            dtype = torch.int64
    return torch.tensor(number, dtype=dtype, device="cpu")


def _carried(operator: Any, packet: str) -> Callable[..., Any]:
    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        result = _redispatch(operator, keys, arguments, named)
        if _is_on_device(result):
            _carrier.carry(operator, packet, arguments, named, result)
            if packet == "index":
                _note_masked(arguments, result)
        return result

    return hook


def _changing(operator: Any, packet: str) -> Callable[..., Any]:
    def hook(keys: Any, changed: Any, *arguments: Any, **named: Any) -> Any:
        references = sys.getrefcount(changed)
        all_of = (changed, *arguments)
        if not _is_on_device(changed):
            _fresh.setdefault("changing", references)
            return _redispatch(operator, keys, all_of, named)
        stamp = _changed_version(changed, references <= _fresh["changing"])
        rule, computed = None, None
        if packet in ("fill_", "zero_"):
            rule = _filled(changed, arguments)
        elif packet == "scatter_":
            rule = _one_hot(changed, *arguments)
        elif changed.untyped_storage().nbytes() <= known.KNOWN_MAX_BYTES:
            if _carrier.known(operator, all_of, named) is not None:
                computed = _host_copy(operator, all_of, named)
        else:
            rule = _carrier.uniform(operator, packet, all_of, named)
        result = _redispatch(operator, keys, all_of, named)
        if computed is not None:
            _contents.set_values(changed, computed[0], stamp, computed[1])
        elif rule is not None:
            _set_content(changed, rule, stamp)
        return result

    return hook


def _host_copy(operator: Any, arguments: Any, named: dict[str, Any]) -> Optional[tuple[torch.Tensor, bool]]:
    """The changed tensor on the host."""
    found = _carrier.known(operator, arguments, named)
    if found is None:
        return None
    (first, *rest), is_guess = found
    try:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(first.clone(), *[_clone(one) for one in rest], **named), is_guess
    except (RuntimeError, IndexError):
        return None


def _clone(argument: Any) -> Any:
    return argument.clone() if isinstance(argument, torch.Tensor) else argument


def _filled(changed: torch.Tensor, arguments: tuple[Any, ...]) -> Optional[Content]:
    value = arguments[0] if arguments else 0
    is_guess = False
    if isinstance(value, torch.Tensor) and value.is_cuda:
        content = _contents.find(value)
        elements = known.values(value, content) if content else None
        if content is None or elements is None:
            return None
        value, is_guess = elements.reshape(()), content.is_guess
    uniform = torch.empty((), dtype=changed.dtype, device="cpu")
    uniform.fill_(value)
    return Content(0, uniform=uniform, is_guess=is_guess)


def _one_hot(changed: torch.Tensor, dim: int, index: torch.Tensor, value: Any, **_: Any) -> Optional[Content]:
    """Ones scattered over zeros: tokens are spread evenly over the classes."""
    content = _contents.find(changed)
    if content is None or content.uniform is None or bool(content.uniform) or not value or not changed.dim():
        return None
    return Content(0, density=index.size(dim) / changed.size(dim), is_guess=True)


def _set_content(changed: torch.Tensor, content: Content, stamp: int) -> None:
    content.version = stamp
    if known.is_whole(changed):
        _contents.set(changed, content)
    elif content.uniform is not None:
        host = content.uniform.expand(changed.shape)
        _contents.set_values(changed, host, content.version, content.is_guess)


def _changed_version(changed: torch.Tensor, is_unreferenced: bool) -> int:
    """The version after the operator.

    The caller of the hook raises it when the hook returns, except for a tensor that a kernel has just made: no Python
    code refers to that one yet, and it is no view.
    """
    if changed.is_inference():
        return 0
    before = version(changed)
    if is_unreferenced and before == 0 and known.is_whole(changed):
        return 0
    return before + int(torch._C._dispatch_tls_is_dispatch_key_excluded(_IN_PLACE_KEY))


def _ranged(operator: Any, _: str) -> Callable[..., Any]:
    def hook(keys: Any, *arguments: Any, out: torch.Tensor) -> Any:
        references = sys.getrefcount(out)
        result = operator.redispatch(keys.remove(_KEY), *arguments, out=out)
        if not out.is_cuda:
            _fresh.setdefault("ranged", references)
        elif out.nbytes <= known.KNOWN_MAX_BYTES:
            host = torch.arange(*arguments, dtype=out.dtype, device="cpu")
            _contents.set_values(out, host, _changed_version(out, references <= _fresh["ranged"]))
        return result

    return hook


def _copied(operator: Any, _: str) -> Callable[..., Any]:
    def hook(keys: Any, to: torch.Tensor, origin: torch.Tensor, non_blocking: bool = False) -> Any:
        references = sys.getrefcount(to)
        if not isinstance(origin, torch.Tensor):
            origin = torch.tensor(origin, device="cpu")
        result = operator.redispatch(keys.remove(_KEY), to, origin, non_blocking)
        if to.is_cuda:
            _copy_to_device(to, origin, _changed_version(to, references <= _fresh["copied"]))
        elif to.device == origin.device:
            _fresh.setdefault("copied", references)
        elif origin.is_cuda and to.device.type == "cpu":
            _copy_to_host(to, origin)
        return result

    return hook


def _copy_to_device(to: torch.Tensor, origin: torch.Tensor, stamp: int) -> None:
    if origin.is_cuda:
        content = _contents.find(origin)
        if content is None:
            return
        if content.density is not None:
            _set_content(to, Content(0, density=content.density, is_guess=True), stamp)
            return
        elements = known.values(origin, content)
        if elements is not None and to.untyped_storage().nbytes() <= known.KNOWN_MAX_BYTES:
            _contents.set_values(to, elements, stamp, content.is_guess)
        elif content.uniform is not None:
            uniform = content.uniform.to(to.dtype)
            _set_content(to, Content(0, uniform=uniform, is_guess=content.is_guess), stamp)
    elif origin.device.type == "cpu":
        if to.untyped_storage().nbytes() <= known.KNOWN_MAX_BYTES:
            _contents.set_values(to, origin, stamp)
        elif not origin.is_floating_point() and 0 < origin.nbytes <= _UNIFORM_MAX_BYTES:
            first = origin.reshape(-1)[0]
            if bool((origin == first).all()):
                _set_content(to, Content(0, uniform=first.to(to.dtype).clone()), stamp)


def _copy_to_host(to: torch.Tensor, origin: torch.Tensor) -> None:
    content = _contents.find(origin)
    elements = known.values(origin, content) if content else None
    if elements is not None:
        to.copy_(elements)
        if content and content.is_guess:
            guesses.note("copy to the host")
    elif content is not None and content.uniform is not None:
        to.fill_(content.uniform)
    elif 0 < to.nbytes <= known.KNOWN_MAX_BYTES:
        to.fill_(guesses.value("copy to the host", origin.dtype))


def _scalar(operator: Any, _: str) -> Callable[..., Any]:
    def hook(keys: Any, origin: torch.Tensor) -> Any:
        result = operator.redispatch(keys.remove(_KEY), origin)
        if not origin.is_cuda:
            return result
        content = _contents.find(origin)
        elements = known.values(origin, content) if content else None
        if content is None or elements is None:
            return guesses.value("item", origin.dtype)
        if content.is_guess:
            guesses.note("item")
        return elements.reshape(-1)[0].item()

    return hook


def _equal(operator: Any, name: str) -> Callable[..., Any]:
    def hook(keys: Any, first: torch.Tensor, second: torch.Tensor) -> Any:
        result = operator.redispatch(keys.remove(_KEY), first, second)
        if not first.is_cuda:
            return result
        computed = _carrier.compute(operator, (first, second), {})
        if computed is not None:
            return computed[0]
        guesses.note(name)
        return first.shape == second.shape

    return hook


def _unscaled(operator: Any, _: str) -> Callable[..., Any]:
    """Gradients are finite: what says so stays."""

    def hook(keys: Any, gradients: Any, found: torch.Tensor, inverse: torch.Tensor) -> Any:
        content = _contents.find(found) if found.is_cuda else None
        operator.redispatch(keys.remove(_KEY), gradients, found, inverse)
        if content is not None:
            content.version = _changed_version(found, False)

    return hook


def _note_masked(arguments: Any, result: torch.Tensor) -> None:
    """Counts a result that a mask of which nothing is certain has sized."""
    masks = [one for one in arguments[1] if _is_on_device(one) and one.dtype in (torch.bool, torch.uint8)]
    for mask in masks:
        content = _contents.find(mask)
        if content is None or content.is_guess:
            rows = max(1, result.numel() // max(1, result.shape[0] if result.dim() else 1))
            guesses.note_shape("index", result, mask.numel() * rows * result.element_size())
            return


def _nonzero(operator: Any, name: str) -> Callable[..., Any]:
    def hook(keys: Any, mask: torch.Tensor) -> Any:
        result = operator.redispatch(keys.remove(_KEY), mask)
        if not mask.is_cuda:
            return result
        computed = _carrier.compute(operator, (mask,), {})
        if computed is not None and not computed[1]:
            made = torch.empty(computed[0].shape, dtype=torch.int64, device=mask.device)
            _contents.set_values(made, computed[0], version(made))
            return made
        content = _contents.find(mask)
        most, is_guess = mask.numel(), content is None or content.is_guess
        if computed is not None:
            count = len(computed[0])
        elif content is not None and content.uniform is not None:
            count = most if bool(content.uniform) else 0
        else:
            density = content.density if content and content.density is not None else 1.0
            count = guesses.elements(most, density)
        made = torch.empty((count, mask.dim()), dtype=torch.int64, device=mask.device)
        if is_guess:
            guesses.note_shape(name, made, most * max(1, mask.dim()) * made.element_size())
        if made.untyped_storage().nbytes() <= known.KNOWN_MAX_BYTES and count and mask.dim():
            places = torch.arange(count, device="cpu") * most // count
            host = torch.stack(torch.unravel_index(places, mask.shape), 1)
            _contents.set_values(made, host, version(made), is_guess)
        return made

    return hook


def _binned(operator: Any, name: str) -> Callable[..., Any]:
    """As many bins as the largest element needs, or as are wanted at least."""

    def hook(keys: Any, elements: torch.Tensor, weights: Any = None, minlength: int = 0) -> Any:
        result = operator.redispatch(keys.remove(_KEY), elements, weights, minlength)
        if not elements.is_cuda:
            return result
        computed = _carrier.compute(operator, (elements, weights, minlength), {})
        content = _contents.find(elements)
        if computed is not None:
            size = len(computed[0])
        else:
            largest = int(content.uniform) if content and content.uniform is not None else 0
            size = max(minlength, largest + 1) if elements.numel() else minlength
        made = torch.empty(size, dtype=result.dtype, device=elements.device)
        if computed is not None:
            _contents.set_values(made, computed[0], version(made), computed[1])
        if (content is None or content.is_guess) and size != minlength:
            guesses.note_shape(name, made, made.nbytes)
        return made

    return hook


def _unique(operator: Any, name: str) -> Callable[..., Any]:
    """The distinct elements, of which all are where nothing is known; then what the operator returns beside them."""
    name = name.lstrip("_")

    def hook(keys: Any, elements: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        result = operator.redispatch(keys.remove(_KEY), elements, *arguments, **named)
        if not elements.is_cuda:
            return result
        computed = _carrier.compute(operator, (elements, *arguments), named)
        if computed is not None and not computed[1]:
            made = [torch.empty(one.shape, dtype=one.dtype, device=elements.device) for one in computed[0]]
            for one, host in zip(made, computed[0]):
                _contents.set_values(one, host, version(one))
            return tuple(made)
        dim = arguments[0] if name == "unique_dim" else None
        most = elements.numel() if dim is None else elements.size(dim)
        count = max(1, guesses.elements(most, 1.0)) if most else 0
        shape = [count] if dim is None else [*elements.shape[:dim], count, *elements.shape[dim:][1:]]
        made = [torch.empty(shape, dtype=elements.dtype, device=elements.device)]
        flags = _unique_flags(operator, arguments, named)
        sizes = (elements.shape if dim is None else [most], [count])
        for is_wanted, size in zip(flags, sizes):
            size = size if is_wanted else [0]
            made.append(torch.empty(size, dtype=torch.int64, device=elements.device))
        row_bytes = made[0].numel() // max(1, count) * elements.element_size()
        guesses.note_shape(name, made[0], most * row_bytes)
        return tuple(made[: len(result)])

    return hook


def _unique_flags(operator: Any, arguments: Any, named: dict[str, Any]) -> list[bool]:
    """Whether the inverse and the counts are wanted."""
    names = [argument.name for argument in operator._schema.arguments][1:]
    given = {**dict(zip(names, arguments)), **named}
    return [bool(given.get(flag, False)) for flag in ("return_inverse", "return_counts")]


def _repeated(operator: Any, name: str) -> Callable[..., Any]:
    """Repeats of which nothing is known are 1 each."""

    def hook(keys: Any, repeats: torch.Tensor, *, output_size: Optional[int] = None) -> Any:
        if not repeats.is_cuda or output_size is not None:
            return operator.redispatch(keys.remove(_KEY), repeats, output_size=output_size)
        content = _contents.find(repeats)
        computed = _carrier.compute(operator, (repeats,), {})
        is_sized_by_guess = computed is None and (content is None or content.uniform is None)
        if computed is not None:
            output_size = len(computed[0])
        elif content is not None and content.uniform is not None:
            output_size = repeats.numel() * int(content.uniform)
        else:
            output_size = repeats.numel()
        result = operator.redispatch(keys.remove(_KEY), repeats, output_size=output_size)
        if computed is not None:
            _contents.set_values(result, computed[0], version(result), computed[1])
        if is_sized_by_guess or (content is not None and content.is_guess):
            guesses.note_shape(name, result, result.nbytes)
        return result

    return hook


_OTHERS: dict[str, Callable[[Any, str], Callable[..., Any]]] = {
    "arange.start_out": _ranged,
    "copy_": _copied,
    "_local_scalar_dense": _scalar,
    "equal": _equal,
    "_amp_foreach_non_finite_check_and_unscale_": _unscaled,
    "bincount": _binned,
    "nonzero": _nonzero,
    "_unique2": _unique,
    "unique_dim": _unique,
    "unique_consecutive": _unique,
    "repeat_interleave.Tensor": _repeated,
}
