"""What in Python keeps blocks of GPU memory alive: chains of references from a name of the program to a tensor.

A chain ends at a global of a module, an attribute of a class, or a local of a running function; or at a reference
cycle that only Python's collector can free. The search reads references and changes nothing. Each level of a chain is
one pass over Python's objects, so depth and time are limited.
"""

from __future__ import annotations

import bisect
import gc
import inspect
import os
import sys
import time
import types
from collections.abc import Iterable, Iterator
from typing import Any, Optional

DEPTH_MAX = 24
# Objects of one level that are followed.
WIDTH_MAX = 256
# Nodes of all autograd graphs that are looked at.
NODES_MAX = 20_000

# The first part of a chain whose outer end is not known.
UNKNOWN = "..."
_Block = tuple[int, int]
_FOLDER = os.path.join(os.path.dirname(__file__), "")


def tensors_in(blocks: list[_Block]) -> dict[int, list[tuple[Any, str]]]:
    """For each of these blocks (address and bytes) the objects that own memory in it, and how; blocks that have none
    are left out.

    An object owns a block as its tensor or storage, or by a tensor that its autograd graph saved.
    """
    torch = sys.modules.get("torch")
    if torch is None or not blocks:
        return {}
    starts = sorted(blocks)
    found: dict[int, list[tuple[Any, str]]] = {}
    # `isinstance` would run code of proxies, whose __class__ is whatever they say.
    objects = [one for one in gc.get_objects() if issubclass(type(one), (torch.Tensor, torch.UntypedStorage))]
    for one in objects:
        block = _block_of(one, starts)
        if block is not None:
            found.setdefault(block, []).append((one, ""))
    for one, nodes in _graphs([one for one in objects if issubclass(type(one), torch.Tensor)]):
        for node in nodes:
            for block in _saved(node, starts):
                found.setdefault(block, []).append((one, f"autograd graph, saved by {node.name()}"))
    return found


def chain(target: Any, hidden: Iterable[Any], until: float) -> list[str]:
    """The shortest chain of references to an object, the outermost first. References from ``hidden`` do not count.
    The search ends at ``until`` of ``time.monotonic()``.

    The last part of it names the object's own place. Of an object in a reference cycle that nothing else refers to,
    the first part is ``reference cycle``; where the limits end the search it is ``...``.
    """
    names = _Names()
    parents: dict[int, Any] = {id(target): None}
    level: list[Any] = [target]
    following: list[Any] = []
    referrers: list[Any] = []
    inside: dict[int, Any] = {}
    is_cycle = False
    last = target
    outside = {id(one) for one in hidden} | {id(hidden)}
    for _ in range(DEPTH_MAX):
        for one in level:
            root = names.root(one)
            if root is not None:
                return [root, *_path(one, parents)]
        ours = outside.union(map(id, (parents, level, following, referrers, inside)))
        referrers = [one for one in gc.get_referrers(*level) if id(one) not in ours and not _is_ours(one)]
        inside = {id(one): one for one in level}
        following = []
        for referrer in referrers:
            named = names.container(referrer, inside)
            if named is not None:
                child, name = named
                return [name, *_path(child, parents)]
            if id(referrer) in parents:
                is_cycle = True
                continue
            for child in gc.get_referents(referrer):
                if id(child) in inside:
                    parents[id(referrer)] = child
                    following.append(referrer)
                    break
        if not following:
            break
        last = following[0]
        if time.monotonic() > until:
            is_cycle = False
            break
        level = following[:WIDTH_MAX]
    else:
        is_cycle = False
    end = "reference cycle" if is_cycle else UNKNOWN
    return [f"{end}: {_kind(last)}", *_path(last, parents)]


def _path(outermost: Any, parents: dict[int, Any]) -> list[str]:
    """The steps from an object to the target."""
    steps = []
    here = outermost
    while parents[id(here)] is not None:
        child = parents[id(here)]
        steps.append(_step(here, child))
        here = child
    return [step for step in steps if step]


class _Names:
    """The names that a program can reach objects by."""

    def __init__(self) -> None:
        self.modules: dict[int, str] = {}
        for name, module in sorted(sys.modules.items(), key=lambda one: one[0] != "__main__"):
            if isinstance(module, types.ModuleType):
                self.modules.setdefault(id(vars(module)), name)
        self.locals: dict[int, str] = {}
        for frame in sys._current_frames().values():
            here: Optional[types.FrameType] = frame
            while here is not None:
                if not _is_ours(here) and here.f_code.co_flags & inspect.CO_OPTIMIZED:
                    self._add_locals(here)
                here = here.f_back
        del frame  # It may be this one, which would then refer to itself.

    def _add_locals(self, frame: types.FrameType) -> None:
        place = f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
        values = frame.f_locals
        for name, value in list(values.items()):
            self.locals.setdefault(id(value), f"local {name} of {place}")
        # Until 3.12 the frame keeps this copy, which would keep memory alive. A third reference is ours, a fourth the
        # program's.
        if sys.version_info < (3, 13) and sys.getrefcount(values) <= 3:
            values.clear()

    def root(self, one: Any) -> Optional[str]:
        """The name of an object that a running function holds."""
        return self.locals.get(id(one))

    def container(self, referrer: Any, inside: dict[int, Any]) -> Optional[tuple[Any, str]]:
        """The object and its name, where the referrer is a module's globals or a class."""
        if isinstance(referrer, dict) and id(referrer) in self.modules:
            for name, value in list(referrer.items()):
                if id(value) in inside:
                    return value, f"global {self.modules[id(referrer)]}.{name}"
        if isinstance(referrer, type):
            for child in gc.get_referents(referrer):  # Its attributes are in a dict.
                if id(child) in inside:
                    return child, f"class {referrer.__module__}.{referrer.__qualname__}"
        return None


def _step(holder: Any, child: Any) -> str:
    """How one object refers to another, as a part of a chain."""
    if isinstance(holder, dict):
        for key, value in list(holder.items()):
            if value is child:
                return f"[{_short(key)}]"
        return "dict key"
    if isinstance(holder, (list, tuple)):
        return next((f"[{at}]" for at, value in enumerate(holder) if value is child), "[...]")
    if isinstance(holder, types.CellType):
        return ""
    if isinstance(holder, types.FunctionType):
        return f"closure of {holder.__qualname__}" if holder.__closure__ is child else f"function {holder.__qualname__}"
    if isinstance(holder, types.FrameType):
        name = next((name for name, value in list(holder.f_locals.items()) if value is child), "?")
        return f"local {name} of {holder.f_code.co_name} ({holder.f_code.co_filename}:{holder.f_lineno})"
    if isinstance(holder, types.TracebackType):
        return "traceback"
    if isinstance(holder, BaseException):
        return f"exception {_kind(holder)}"
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return _kind(holder)
    if attributes is child:
        return _kind(holder)
    name = next((name for name, value in list(attributes.items()) if value is child), "")
    return f"{_kind(holder)}.{name}" if name else _kind(holder)


def _is_ours(one: Any) -> bool:
    return isinstance(one, types.FrameType) and one.f_code.co_filename.startswith(_FOLDER)


def _kind(one: Any) -> str:
    return type(one).__name__


def _short(key: Any) -> str:
    """A key as text. Only of types whose repr is no code of the program."""
    if type(key) in (str, int, bool, float, bytes, type(None)):
        text = repr(key)
        return text if len(text) <= 40 else text[:37] + "..."
    return _kind(key)


def _block_of(one: Any, starts: list[_Block]) -> Optional[int]:
    """The address of the block that an object's memory is in."""
    try:
        if not one.is_cuda:
            return None
        address = one.data_ptr()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # A subclass without memory of its own.
        return None
    at = bisect.bisect_right(starts, (address, sys.maxsize)) - 1
    if address and at >= 0 and address < starts[at][0] + starts[at][1]:
        return starts[at][0]
    return None


def _graphs(tensors: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The autograd graphs of these tensors, each with the tensor at its end, such as a loss.

    PyTorch keeps the tensors in a graph, which nothing else refers to: they are at no end.
    """
    ends = [(one, one.grad_fn) for one in tensors if one.grad_fn is not None]
    inner: set[Any] = set()
    for node in _walk([node for _, node in ends], set()):
        inner.update(following for following, _ in node.next_functions)
    seen: set[Any] = set()
    for one, node in ends:
        if node not in inner:
            yield one, list(_walk([node], seen))


def _walk(waiting: list[Any], seen: set[Any]) -> Iterator[Any]:
    """The nodes that can be reached from these and were not seen before."""
    while waiting and len(seen) < NODES_MAX:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions)


def _saved(node: Any, starts: list[_Block]) -> Iterator[int]:
    """The blocks of tensors that a node of an autograd graph saved for its backward pass."""
    for name in dir(node):
        if not name.startswith("_saved_"):
            continue
        try:
            values = getattr(node, name)
        except RuntimeError:  # The backward pass released them.
            continue
        for value in values if isinstance(values, (list, tuple)) else [values]:
            block = _block_of(value, starts)
            if block is not None:
                yield block
