"""Hooks operators.

They are hooked at the dispatch key ``BackendSelect``: below autograd and tracing, above the kernels. The real kernel
runs with its real allocations, and no other operator is slower. Tensors of other devices pass through. An error in the
model is counted, and the program has the result of the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Optional

import torch

from . import changes, draws, reads, results, shapes, table
from .contents import contents, is_ignored, is_on_device, is_whole, tensors, version
from .guesses import guesses
from .level import OFF, level

_KEY = torch._C.DispatchKey.BackendSelect
_IN_PLACE_KEY = torch._C.DispatchKey.ADInplaceOrView
_NUMBERS = (int, float, complex)

_library: Optional[torch.library.Library] = None
# References to a tensor that a kernel has just made and no Python code has, by operator.
_unreferenced: dict[str, int] = {}
_Hook = Callable[..., Any]


def install() -> None:
    """Hooks the operators of this process, unless the environment says ``off``.

    :raises ValueError: for a level that does not exist
    """
    global _library
    wanted = level()
    if _library is not None or wanted == OFF:
        return
    guesses.level = wanted
    _library = torch.library.Library("aten", "IMPL")
    for name in dict.fromkeys([*table.COMPUTED, *table.DRAWN]):
        _hook(name, _making)
    for name in table.CHANGING:
        _hook(name, _changing)
    draws.on_first(_install_late)
    for name, model in {**reads.READS, **shapes.SIZED}.items():
        _hook(name, _answering(model))
    _hook("arange.start_out", _ranging)
    _hook("_amp_foreach_non_finite_check_and_unscale_", _unscaling)
    # These kernels make a tensor and change it: from now on ``_unreferenced`` is complete.
    torch.full((1,), 1.0, device="cpu").clone()
    torch.zeros((1,), device="cpu")
    torch.arange(2, device="cpu")


def _install_late() -> None:
    """Hooks operators that every backward pass or optimizer uses, for programs that route, count or generate."""
    for name in table.LATE_COMPUTED:
        _hook(name, _making)
    for name in table.LATE_CHANGING:
        _hook(name, _changing)


def _hook(name: str, make: Callable[[Any, str, _Hook], _Hook]) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if operator is None or _library is None:
        return
    hook = make(operator, packet, operator._handle.redispatch_boxed)
    # Dynamo traces every Python frame of its thread, also those under a kernel.
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(hook.__code__, frames._FrameExecStrategy(skip, skip))
    _library.impl(name, hook, "BackendSelect", with_keyset=True)


def _converter(operator: Any) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Converts numbers where the operator takes tensors: the call under a hook does not convert them."""
    kinds = [argument.type.kind() for argument in operator._schema.arguments]
    if kinds.count("TensorType") < 2:
        return tuple

    def converted(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        for kind, one in zip(kinds, arguments):
            if kind == "TensorType" and isinstance(one, _NUMBERS):
                return tuple(
                    _as_tensor(one, arguments) if kind == "TensorType" else one for kind, one in zip(kinds, arguments)
                )
        return arguments

    return converted


def _as_tensor(number: Any, arguments: Any) -> Any:
    """A number beside a tensor, as a tensor that promotes as the number does; and an argument that is none."""
    if not isinstance(number, _NUMBERS):
        return number
    other = next((one for one in arguments if isinstance(one, torch.Tensor)), None)
    dtype = torch.result_type(other, number) if other is not None else None
    if other is not None and other.dim() and dtype == other.dtype:
        # Kernels take the number with more precision than the tensor has.
        if dtype.is_complex or dtype.is_floating_point:
            dtype = torch.complex128 if dtype.is_complex else torch.float64
        elif dtype != torch.bool:
            dtype = torch.int64
    return torch.tensor(number, dtype=dtype, device="cpu")


def _making(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """Operators that make new tensors."""
    converted = _converter(operator)

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        arguments = converted(arguments)
        result = kernel(keys.remove(_KEY), *arguments, **named)
        first = result if isinstance(result, torch.Tensor) else result[-1]
        if first.is_cuda and not is_ignored(first):
            _guarded(results.note, operator, packet, arguments, named, result)
        return result

    return hook


def _changing(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """Operators that change their first argument. Their arguments are read before the kernel runs."""
    is_copy = packet == "copy_"
    converted = _converter(operator)

    def hook(keys: Any, changed: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        references = sys.getrefcount(changed)
        if arguments and isinstance(arguments[0], _NUMBERS):
            arguments = converted((changed, *arguments))[1:]
        below = keys.remove(_KEY)
        if not changed.is_cuda:
            if packet not in _unreferenced:
                _unreferenced[packet] = references
            if not is_copy or not is_on_device(arguments[0]):
                return kernel(below, changed, *arguments, **named)
        elif is_ignored(changed):
            return kernel(below, changed, *arguments, **named)
        stamp = _changed_version(changed, references <= _unreferenced.get(packet, 0))
        all_arguments = (changed, *arguments)
        keep = _guarded(changes.prepare, operator, packet, all_arguments, named, stamp)
        result = kernel(below, changed, *arguments, **named)
        if keep is not None:
            _guarded(_call, keep, packet, all_arguments, named, result)
        return result

    return hook


def _answering(model: _Hook) -> Callable[[Any, str, _Hook], _Hook]:
    """Operators whose result, or its size, is a value. The first argument decides whether they run on the device."""

    def make(operator: Any, packet: str, kernel: _Hook) -> _Hook:
        def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
            result = kernel(keys.remove(_KEY), *arguments, **named)
            if not arguments[0].is_cuda:
                return result
            answer = _guarded(model, operator, packet, arguments, named, result)
            return result if answer is None else answer

        return hook

    return make


def _ranging(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """``arange``, which fills a tensor."""

    def hook(keys: Any, *arguments: Any, out: torch.Tensor) -> Any:
        references = sys.getrefcount(out)
        result = kernel(keys.remove(_KEY), *arguments, out=out)
        if not out.is_cuda:
            _unreferenced.setdefault(packet, references)
        else:
            stamp = _changed_version(out, references <= _unreferenced[packet])
            _guarded(changes.note_range, operator, packet, (out, *arguments), {}, stamp)
        return result

    return hook


def _unscaling(_: Any, packet: str, kernel: _Hook) -> _Hook:
    """Gradients are finite, so the tensor that would say otherwise stays as it is."""

    def hook(keys: Any, gradients: Any, found: torch.Tensor, inverse: torch.Tensor) -> Any:
        content = contents.find(found) if found.is_cuda else None
        kernel(keys.remove(_KEY), gradients, found, inverse)
        if content is not None:
            content.version = _changed_version(found, False)

    return hook


def _call(keep: _Hook, *_: Any) -> None:
    keep()


def _guarded(model: _Hook, operator: Any, packet: str, arguments: Any, named: Any, given: Any) -> Any:
    """Calls a part of the model. Its errors are counted, except an out of memory, which a GPU would have too."""
    try:
        if torch._C._len_torch_function_stack():
            with torch._C.DisableTorchFunction():  # The program's modes are for its own calls.
                return model(operator, packet, arguments, named, given)
        return model(operator, packet, arguments, named, given)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        if all(one.layout == torch.strided and not one.is_nested for one in tensors(arguments)):
            guesses.fail(packet, error)
        return None


def _changed_version(changed: torch.Tensor, is_unreferenced: bool) -> int:
    """The version after the operator.

    The caller of the hook raises it when the hook returns, except for a tensor that a kernel has just made: no Python
    code refers to that one yet, and it is no view.
    """
    if changed.is_inference():
        return 0
    before = version(changed)
    if is_unreferenced and before == 0 and is_whole(changed):
        return 0
    return before + int(torch._C._dispatch_tls_is_dispatch_key_excluded(_IN_PLACE_KEY))
