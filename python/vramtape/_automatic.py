"""Marks without a line of code: what torch says of a training loop when it steps, differentiates and names ranges.

Python runs here a few times a step and never for an allocation:

- before and after each step of an optimizer (torch's own hooks for all optimizers): the phase ``optimizer``, and which
  memory holds parameters, gradients and the optimizer's state;
- around the autograd engine: the phase ``backward``;
- after either: the phase ``forward``, which is therefore all that is neither, such as loading data and clipping;
- around ``torch.profiler.record_function``: a range.

The library also counts the calls of the CUDA runtime for pinned host memory (``_host_memory``).

With ``marks:modules`` it runs around every call of a module too (``_modules``).
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Optional

import torch

from . import _host_memory, _modules, _runtime, marks

# VRAMTAPE_CATEGORY_* of vramtape.h.
PARAMETER, GRADIENT, OPTIMIZER_STATE = range(3)
# Tensors that keep their address are recorded again this often, as a ring may have overwritten their categories.
REPEAT_STEPS = 16

# Tensors that are no subclass's.
_PLAIN = (torch.Tensor, torch.nn.Parameter)

_is_active = False
_depth = threading.local()
_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
# The one whose steps are the program's, and how many there were of each.
_leader: Optional[weakref.ref[torch.optim.Optimizer]] = None
_steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
_has_modules = False
# Optimizers were made whose parameters the tape does not know.
_is_new = False


def activate() -> None:
    """Begins to mark, once."""
    global _is_active, _has_modules
    if _is_active:
        return
    _is_active = True
    _host_memory.watch()
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(_before_step)
    optimizer.register_optimizer_step_post_hook(_after_step)
    _watch_new_optimizers()
    _watch_engine()
    _watch_ranges()
    if _runtime.call("wants_module_marks"):
        _has_modules = True
        _modules.activate(_announce_model)


def announce() -> None:
    """Categorizes the memory of all known parameters, gradients and optimizer states."""
    for optimizer in list(_optimizers):
        _say_by_module(PARAMETER, _parameters(optimizer))
        _say(GRADIENT, _gradients(optimizer))
        _say_by_module(OPTIMIZER_STATE, _states(optimizer))


def _before_step(optimizer: Any, _arguments: Any, _named: Any) -> None:
    if torch.compiler.is_compiling():
        return
    marks.record(marks.PHASE, "optimizer")
    _optimizers.add(optimizer)
    if _steps.get(optimizer, 0) % REPEAT_STEPS == 0:
        _say_by_module(PARAMETER, _parameters(optimizer))
    _say(GRADIENT, _gradients(optimizer))


def _after_step(optimizer: Any, _arguments: Any, _named: Any) -> None:
    if torch.compiler.is_compiling():
        return
    global _leader
    count = _steps.get(optimizer, 0)
    _steps[optimizer] = count + 1
    # Most optimizers make their state in the first step.
    if count % REPEAT_STEPS == 0:
        _say_by_module(OPTIMIZER_STATE, _states(optimizer))
    if _leader is None or _leader() is None:
        _leader = weakref.ref(optimizer)
    if _leader() is optimizer and not marks.is_counted_by_program:
        marks.count_step()
    marks.record(marks.PHASE, "forward")


def _watch_new_optimizers() -> None:
    """Out of memory comes in the first backward as a rule, before any step: parameters are known by then."""
    add_param_group = torch.optim.Optimizer.add_param_group

    @functools.wraps(add_param_group)
    def watched(self: torch.optim.Optimizer, param_group: dict[str, Any]) -> None:
        global _is_new
        add_param_group(self, param_group)
        _optimizers.add(self)
        _is_new = True

    torch.optim.Optimizer.add_param_group = watched


def _watch_engine() -> None:
    """``backward()`` and ``grad()`` both come here."""
    run = torch.autograd._engine_run_backward

    @functools.wraps(run)
    def watched(*arguments: Any, **named: Any) -> Any:
        global _is_new
        if getattr(_depth, "inside", False):  # Such as a checkpoint that computes its part again.
            return run(*arguments, **named)
        _depth.inside = True
        if _is_new:
            _is_new = False
            announce()
        marks.record(marks.PHASE, "backward")
        try:
            return run(*arguments, **named)
        finally:
            _depth.inside = False
            marks.record(marks.PHASE, "forward")

    torch.autograd._engine_run_backward = watched


def _watch_ranges() -> None:
    """The methods and not the class, which torch.compile and others know by its identity."""
    kind = torch.autograd.profiler.record_function
    enter, leave = kind.__enter__, kind.__exit__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        marks.record(marks.RANGE_BEGIN, self.name)
        return enter(self)

    @functools.wraps(leave)
    def left(self: Any, *raised: Any) -> Any:
        marks.record(marks.RANGE_END, self.name)
        return leave(self, *raised)

    kind.__enter__ = entered
    kind.__exit__ = left


def _announce_model(parts: list[tuple[str, torch.nn.Module]]) -> None:
    """Categorizes the parameters of a model that is called for the first time."""
    _say_by_module(PARAMETER, ((one, one) for _, part in parts for one in part.parameters(recurse=False)))


def _parameters(optimizer: torch.optim.Optimizer) -> Iterable[tuple[Any, Any]]:
    """Each parameter twice, as :func:`_say_by_module` takes tensors."""
    return ((one, one) for group in optimizer.param_groups for one in group["params"])


def _gradients(optimizer: torch.optim.Optimizer) -> Iterable[Any]:
    gradients = (one.grad for one, _ in _parameters(optimizer))
    return (gradient for gradient in gradients if gradient is not None)


def _states(optimizer: torch.optim.Optimizer) -> Iterable[tuple[Any, Any]]:
    """The state's tensors with their parameters."""
    states = ((one, state) for one, state in optimizer.state.items() if isinstance(state, dict))
    return ((one, value) for one, state in states for value in state.values())


def _say_by_module(category: int, tensors: Iterable[tuple[Any, Any]]) -> None:
    """Categorizes the memory of tensors, given with the parameter whose module they belong to."""
    if not _has_modules:
        _say(category, (tensor for _, tensor in tensors))
        return
    paths = _modules.parameters()
    found: dict[bytes, list[Any]] = {}
    for parameter, tensor in tensors:
        found.setdefault(paths.get(id(parameter), b""), []).append(tensor)
    for path, some in found.items():
        _modules.owner(path)
        _say(category, some)
    if any(found):
        _modules.owner(b"")


def _say(category: int, tensors: Iterable[Any]) -> None:
    """Categorizes the memory of these tensors, one call for each device."""
    addresses: dict[int, list[int]] = {}
    for tensor in tensors:
        local = tensor
        if type(tensor) not in _PLAIN:  # Else a failed lookup would take as long as all the rest.
            local = getattr(tensor, "_local_tensor", tensor)  # A DTensor's part of this rank.
            if not isinstance(local, torch.Tensor):
                continue
        if not local.is_cuda:
            continue
        try:
            address = local.untyped_storage().data_ptr()
        except (NotImplementedError, RuntimeError):  # A subclass without memory of its own.
            continue
        if address:
            addresses.setdefault(local.get_device(), []).append(address)
    for device, found in addresses.items():
        array = (ctypes.c_uint64 * len(found))(*found)
        _runtime.load().vramtape_categorize(device, category, array, len(found))
