"""Marks of the running ``nn.Module``: its path as ``named_modules()`` has it, such as ``model.layers.3.mlp``.

Global hooks of torch mark where each call of a module begins and ends. A hook on the autograd nodes of its outputs
marks where the backward pass reaches it; full backward hooks of modules would break in-place operations on their
outputs.
``torch.compile`` traces none of this: a compiled module is marked as one.

The paths of a model are found once, when its outermost module is called for the first time.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import warnings
import weakref
from collections.abc import Iterable
from typing import Any, Callable

import torch

from . import _runtime
from .marks import MODULE_BACKWARD, MODULE_BEGIN, MODULE_END, MODULE_OWNER

# Outputs are looked for in lists and dictionaries down to this depth.
_DEPTH = 4
# In the metadata of an autograd node: a module has its hook there. Inner modules come first.
_REACHED = "vramtape.module"

# Bound early: these run in every call. The first is true in what torch.compile traces only, the flag beside it, where
# it is used, in what torch.export traces.
_is_traced = torch.compiler.is_dynamo_compiling
_compiler = torch.compiler
_is_grad_enabled = torch.is_grad_enabled
_Tensor = torch.Tensor

# Modules with their names in a model.
_Parts = list[tuple[str, torch.nn.Module]]


class _Thread(threading.local):
    """The paths of the open calls, outermost first."""

    def __init__(self) -> None:
        self.open: list[bytes] = []


_thread = _Thread()
# The known modules by identity. A reference takes its module out when that is gone.
_paths: dict[int, bytes] = {}
_references: dict[int, weakref.ref[torch.nn.Module]] = {}
_owners: dict[bytes, int] = {}
# What the paths below a model begin with, by the model's own.
_prefixes: dict[bytes, str] = {}
_backward_hooks: dict[bytes, torch.Tensor] = {}
_on_model: Callable[[_Parts], None]
_mark: Callable[[int, bytes], int]


def activate(on_model: Callable[[_Parts], None]) -> None:
    """Begins to mark, once.

    :param on_model: is called with the modules of a model when that is called for the first time
    """
    global _on_model, _mark
    # Without the types of its arguments, which are right, a call takes half as long.
    _on_model, _mark = on_model, ctypes.CFUNCTYPE(ctypes.c_int)(_runtime.address("mark"))
    torch.nn.modules.module.register_module_forward_pre_hook(_before)
    torch.nn.modules.module.register_module_forward_hook(_after, always_call=True)
    _watch_compile()


def parameters() -> dict[int, bytes]:
    """The paths of the modules that own parameters, by the parameter's identity."""
    paths: dict[int, bytes] = {}
    for key, reference in list(_references.items()):
        module = reference()
        path = _paths.get(key)
        if module is not None and path is not None:
            for parameter in module.parameters(recurse=False):
                paths.setdefault(id(parameter), path)
    return paths


def owner(path: bytes) -> None:
    """The blocks that this thread categorizes from here on are this module's; with an empty path, no module's."""
    _mark(MODULE_OWNER, path)


def _before(module: torch.nn.Module, _arguments: Any) -> None:
    if _is_traced() or _compiler._is_compiling_flag:
        return
    calls = _thread.open
    path = _paths.get(id(module))
    if path is None:
        path = _learn(module, calls)
    if not calls:
        _mark(MODULE_BEGIN, path)
    elif calls[-1] != path:  # Else the call of a compiled module within that of its wrapper.
        if calls[0] == path:  # The model's last call was interrupted.
            _mark(MODULE_END, path)
            calls.clear()
        _mark(MODULE_BEGIN, path)
    calls.append(path)


def _after(module: torch.nn.Module, _arguments: Any, result: Any) -> None:
    if _is_traced() or _compiler._is_compiling_flag:
        return
    calls = _thread.open
    path = _paths.get(id(module))
    if path is None or path not in calls:
        return
    while calls.pop() != path:  # An interrupted call, such as by KeyboardInterrupt: its hooks did not run.
        pass
    if _is_grad_enabled():
        for tensor in (result,) if type(result) is _Tensor else _tensors(result, _DEPTH):
            # Marks when the backward pass reaches the operation that made the tensor.
            node = tensor.grad_fn
            if node is None:
                continue
            metadata = node.metadata
            if _REACHED not in metadata:
                metadata[_REACHED] = True
                hook = _backward_hooks.get(path)
                if hook is None:
                    hook = _backward_hooks[path] = _backward_hook(path)
                # As Tensor.register_hook does, with one hook for all tensors: register_prehook takes thrice as long.
                node._register_hook_dict(hook)
    if not calls or calls[-1] != path:
        _mark(MODULE_END, path)


def _tensors(result: Any, depth: int) -> Iterable[torch.Tensor]:
    """The tensors of a module's output."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if depth == 0 or not isinstance(result, (tuple, list, dict)):
        return ()
    inner = result.values() if isinstance(result, dict) else result
    return [tensor for one in inner for tensor in _tensors(one, depth - 1)]


def _backward_hook(path: bytes) -> torch.Tensor:
    """A tensor with the hook of a module."""

    def reached(_gradient: Any) -> None:
        if not _is_traced():
            _mark(MODULE_BACKWARD, path)

    with torch.inference_mode(False):
        tensor = torch.empty(0, device="cpu", requires_grad=True)
    tensor.register_hook(reached)
    return tensor


def _learn(module: torch.nn.Module, calls: list[bytes]) -> bytes:
    """The path of a module that is called for the first time."""
    kind = type(module).__name__
    try:
        return _find(module, calls)
    except Exception as error:  # Such as a named_modules() of the module's own. A mark is no reason to end a training.
        warnings.warn(f"vramtape names all modules below {kind} after their classes: {error}", stacklevel=2)
        _keep(module, _encode(kind))
        return _paths[id(module)]


def _find(module: torch.nn.Module, calls: list[bytes]) -> bytes:
    """Finds the paths of a module and of those below it."""
    parts = [(_without_wrapper(name), part) for name, part in module.named_modules()]
    for _, part in parts:
        _forget(id(part))
    kind = type(_children(module).get("_orig_mod", module)).__name__
    if calls:
        path = _below(calls[-1], module, kind)
        prefix = f"{path}."
    else:
        path = _free(kind)
        prefix = f"{path}." if any(name and _encode(name) in _owners for name, _ in parts) else ""
        _prefixes[_encode(path)] = prefix
    # A compiled module and its wrapper share one object.
    encoded = {name: _encode(f"{prefix}{name}" if name else path) for name, _ in parts}
    for name, part in parts:
        _keep(part, encoded[name])
    _on_model(parts)
    return _paths[id(module)]


def _keep(module: torch.nn.Module, path: bytes) -> None:
    key = id(module)
    _paths[key] = path
    _references[key] = weakref.ref(module, lambda _: _forget(key))
    _owners.setdefault(path, key)


def _forget(key: int) -> None:
    _references.pop(key, None)
    path = _paths.pop(key, b"")
    if _owners.get(path) == key:
        del _owners[path]


def _without_wrapper(name: str) -> str:
    """A path without the wrappers that ``torch.compile`` makes."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _below(caller: bytes, module: torch.nn.Module, kind: str) -> str:
    """The path of a module that its caller got after the paths were found, or that is not below its caller."""
    reference = _references.get(_owners.get(caller, 0))
    parent = reference() if reference else None
    for name, child in _children(parent).items() if parent is not None else ():
        if child is module:
            return f"{_prefixes.get(caller, f'{caller.decode()}.')}{name}"
    return f"{caller.decode()}.{kind}"


def _children(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """The parts of a module, of TorchScript's too."""
    return dict(module.named_children())


def _free(kind: str) -> str:
    """The name of a class as a path, with a number for its second model."""
    path, number = kind, 1
    while _encode(path) in _owners:
        number += 1
        path = f"{kind}#{number}"
    return path


def _encode(path: str) -> bytes:
    return path.replace("\0", " ").encode(errors="replace")


def _watch_compile() -> None:
    """``Module.compile()`` compiles the hooks along, which mark nothing then: the module is marked around it."""
    warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
    compile_module = torch.nn.Module.compile

    @functools.wraps(compile_module)
    def watched(self: torch.nn.Module, *arguments: Any, **named: Any) -> None:
        compile_module(self, *arguments, **named)
        compiled = self._compiled_call_impl
        module = weakref.ref(self)

        @functools.wraps(compiled)
        def called(*arguments: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*arguments, **named)
            inner, result = module(), None
            _before(inner, arguments)
            try:
                result = compiled(*arguments, **named)
                return result
            finally:
                _after(inner, arguments, result)

        self._compiled_call_impl = called

    torch.nn.Module.compile = watched
