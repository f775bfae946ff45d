"""Hooks operators, at a dispatch key above autograd (``scope``).

The real kernel runs with its real allocations, and no other operator is slower. Tensors of other devices pass through.
An error in the model is counted, and the program has the result of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch

from . import changes, reads, results, scope, shapes, table
from .contents import Content, contents, is_ignored, is_on_device, tensors, version
from .guesses import guesses
from .level import OFF, level

# Below autograd, and also in backward passes.
_ALWAYS = "BackendSelect"
_ALWAYS_KEY = torch._C.DispatchKey.BackendSelect
_NUMBERS = (int, float, complex, bool)
_TRACING = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_library: Optional[torch.library.Library] = None
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
    for name in table.DROPPING:
        _hook(name, _dropping)
    _hook("_local_scalar_dense", _reading)
    _hook("equal", _answering(reads.equal))
    for name in table.SIZED:
        _hook(name, _answering(shapes.size), _ALWAYS if name in table.SIZED_ALWAYS else scope.NAME)
    for name in table.FACTORED:
        _hook(name, _factoring)
    _hook("_linalg_check_errors", _checking)
    _hook("istft", _inverting)
    _hook("arange.start_out", _ranging)
    _hook("_amp_foreach_non_finite_check_and_unscale_", _unscaling)
    scope.begin()


def _hook(name: str, make: Callable[[Any, str, _Hook], _Hook], key: str = scope.NAME) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if operator is None or _library is None:
        return
    hook = make(operator, packet, operator._handle.redispatch_boxed)
    # Dynamo traces every Python frame of its thread, also those under a kernel.
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(hook.__code__, frames._FrameExecStrategy(skip, skip))
    _library.impl(name, hook, key, with_keyset=True)


def _converter(operator: Any) -> Callable[[tuple[Any, ...]], Optional[tuple[Any, ...]]]:
    """Converts numbers where the operator takes tensors: the call under a hook does not convert them.

    The conversion is None in a program that is traced: a tensor would be a constant of its graph.
    """
    kinds = [argument.type.kind() for argument in operator._schema.arguments]
    places = [at for at, kind in enumerate(kinds) if kind == "TensorType"]
    if len(places) < 2:
        return tuple

    def convert(arguments: tuple[Any, ...]) -> Optional[tuple[Any, ...]]:
        if any(type(one) in _SYMBOLS for one in arguments) or any(map(torch._C._get_dispatch_mode, _TRACING)):
            return None
        return tuple(_as_tensor(one, arguments) if at in places else one for at, one in enumerate(arguments))

    def binary(arguments: tuple[Any, ...]) -> Optional[tuple[Any, ...]]:
        if isinstance(arguments[0], torch.Tensor) and isinstance(arguments[1], torch.Tensor):
            return arguments
        return convert(arguments)

    return binary if places == [0, 1] else convert


def _as_tensor(number: Any, arguments: Any) -> Any:
    """A number beside a tensor, as a tensor that promotes as the number does; and an argument that is none."""
    if type(number) not in _NUMBERS:
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
    """Operators that make new tensors. Indexing may have a guessed size, so that its large results count too."""
    converted, is_sized, is_reading = _converter(operator), packet == "index", packet == "histc"

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        given = converted(arguments)
        if given is None:
            return _traced(operator, arguments, named)
        arguments = given
        if is_reading:
            with reads.inside_kernel():
                result = kernel(keys.remove(scope.KEY), *arguments, **named)
        else:
            result = kernel(keys.remove(scope.KEY), *arguments, **named)
        first = result if isinstance(result, torch.Tensor) else result[-1]
        if is_on_device(first) and (is_sized or not is_ignored(first)):
            _guarded(results.note, operator, packet, arguments, named, result)
        return result

    return hook


def _changing(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """Operators that change their first argument. Their arguments are read before the kernel runs."""
    converted, is_copy = _converter(operator), packet == "copy_"

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        changed, below = arguments[0], keys.remove(scope.KEY)
        given = converted(arguments)
        if given is None:
            return _traced(operator, arguments, named)
        arguments = given
        if not (is_copy or changed.is_cuda):  # As the counters of optimizers, which are many.
            return kernel(below, *arguments, **named)
        if is_on_device(changed):
            # Numbers made of a mask are known as it is: a check of gradients takes their largest. They may change.
            is_mask = is_copy and arguments[1].dtype == torch.bool
            is_known = not is_ignored(changed) or is_mask or changed.is_inference()
        else:
            is_known = is_copy and is_on_device(arguments[1])
        if not is_known:
            return kernel(below, *arguments, **named)
        keep = _guarded(changes.prepare, operator, packet, arguments, named, None)
        old = _guarded(changes.unversioned, operator, packet, arguments, named, None)
        result = kernel(below, *arguments, **named)
        if keep is not None:
            _guarded(_call, keep, packet, arguments, named, None)
        if old is not None:
            _guarded(changes.drop_if_still, operator, packet, arguments, named, old)
        return result

    return hook


def _dropping(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """Operators that change their first argument to values that are not known."""
    converted = _converter(operator)

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        given = converted(arguments)
        if given is None:
            return _traced(operator, arguments, named)
        result = kernel(keys.remove(scope.KEY), *given, **named)
        if is_on_device(arguments[0]):
            old = _guarded(changes.unversioned, operator, packet, arguments, named, None)
            if old is not None:
                _guarded(changes.drop_if_still, operator, packet, arguments, named, old)
        return result

    return hook


def _traced(operator: Any, arguments: Any, named: Any) -> Any:
    """Calls an operator of a program that is traced, whose tensors have no values."""
    with scope.excluded(True):
        return operator(*arguments, **named)


def _reading(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """``item``. Optimizers call it for counters on the host, so that the way of these is short."""

    def hook(keys: Any, origin: torch.Tensor) -> Any:
        result = kernel(keys.remove(scope.KEY), origin)
        if not origin.is_cuda or not is_on_device(origin):
            return result
        answer = _guarded(reads.scalar, operator, packet, (origin,), {}, result)
        return result if answer is None else answer

    return hook


def _answering(model: _Hook) -> Callable[[Any, str, _Hook], _Hook]:
    """Operators whose result, or its size, is a value. The first argument decides whether they run on the device."""

    def make(operator: Any, packet: str, kernel: _Hook) -> _Hook:
        def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
            below = keys.remove(scope.KEY).remove(_ALWAYS_KEY)
            if not is_on_device(arguments[0]):
                return kernel(below, *arguments, **named)
            with reads.inside_kernel():
                result = kernel(below, *arguments, **named)
            answer = _guarded(model, operator, packet, arguments, named, result)
            return result if answer is None else answer

        return hook

    return make


def _factoring(_: Any, packet: str, kernel: _Hook) -> _Hook:
    """Factorisations, which succeed."""

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        result = kernel(keys.remove(scope.KEY), *arguments, **named)
        if is_on_device(result[-1]):
            _guarded(_succeed, None, packet, result[-1:], {}, None)
        return result

    return hook


def _checking(_: Any, packet: str, kernel: _Hook) -> _Hook:
    """The check of a factorisation inside another operator."""

    def hook(keys: Any, info: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if is_on_device(info):
            _guarded(_succeed, None, packet, (info,), {}, None)
        return kernel(keys.remove(scope.KEY), info, *arguments, **named)

    return hook


def _succeed(_: Any, __: str, arguments: Any, ___: dict[str, Any], ____: Any) -> None:
    (info,) = arguments
    contents.set_content(info, Content(uniform=torch.zeros((), dtype=info.dtype, device="cpu")), version(info))


def _inverting(_: Any, __: str, kernel: _Hook) -> _Hook:
    """``istft``, which fails where its windows add up to 0."""

    def hook(keys: Any, *arguments: Any, **named: Any) -> Any:
        with reads.unequal():
            return kernel(keys.remove(scope.KEY), *arguments, **named)

    return hook


def _ranging(operator: Any, packet: str, kernel: _Hook) -> _Hook:
    """``arange``, which fills a tensor."""

    def hook(keys: Any, *arguments: Any, out: torch.Tensor) -> Any:
        result = kernel(keys.remove(scope.KEY), *arguments, out=out)
        if is_on_device(out):
            _guarded(changes.note_range, operator, packet, arguments, {}, out)
        return result

    return hook


def _unscaling(_: Any, packet: str, kernel: _Hook) -> _Hook:
    """Gradients are finite, so the tensor that would say otherwise stays as it is."""

    def hook(keys: Any, gradients: Any, found: torch.Tensor, inverse: torch.Tensor) -> Any:
        content = contents.find(found) if is_on_device(found) else None
        kernel(keys.remove(scope.KEY), gradients, found, inverse)
        if content is not None:
            content.version = version(found)

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
        if all(map(_has_storage, tensors(arguments))):
            guesses.fail(packet, error)
        return None


def _has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has one storage: sparse, nested and batched ones have none, and no content."""
    is_batched = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return tensor.layout == torch.strided and not tensor.is_nested and not is_batched
