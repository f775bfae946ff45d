"""Large tensors on the host whose contents do not matter: they stay address space.

A model of the GPU's size may be made on the host first, initialised, converted to another type and moved to the GPU.
The simulated GPU reads none of it. Memory that is not written takes none of the machine.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._rebind import replace

# Smaller tensors are as without a dry run.
LARGE_BYTES = 4 << 20

# By address. A reference keeps the address from being used again.
_unfilled: dict[int, StorageWeakRef] = {}
# Entries at which those of tensors that are gone are removed.
_prune_at = 1024


def begin(hollow: Path) -> None:
    """Leaves large tensors on the host unwritten.

    :param hollow: the folder of hollow files, whose tensors are not converted either
    """
    init = torch.nn.init
    names = [name for name in vars(init) if name.endswith("_") and not name.startswith("_")]
    replace({getattr(init, name): _unfilling(getattr(init, name)) for name in names})
    replace({torch.load: _mapped(torch.load)})
    torch.nn.Module._apply = _converting(torch.nn.Module._apply, str(hollow))


def _is_large(tensor: Any) -> bool:
    """Whether a tensor has a large memory of its own on the host."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.nbytes >= LARGE_BYTES
    )


def _note(tensor: torch.Tensor) -> None:
    global _prune_at
    storage = tensor.untyped_storage()
    _unfilled[storage._cdata] = StorageWeakRef(storage)
    if len(_unfilled) >= _prune_at:
        for address in [address for address, reference in _unfilled.items() if reference.expired()]:
            del _unfilled[address]
        _prune_at = 2 * max(len(_unfilled), 512)


def _is_unfilled(tensor: torch.Tensor, hollow: str) -> bool:
    storage = tensor.untyped_storage()
    reference = _unfilled.get(storage._cdata)
    return (reference is not None and not reference.expired()) or (storage.filename or "").startswith(hollow)


def _unfilling(fill: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``torch.nn.init`` that does not write large tensors. Its errors are those of the original."""

    def filled(*arguments: Any, **named: Any) -> Any:
        tensor = arguments[0] if arguments else named.get("tensor")
        if not _is_large(tensor):
            return fill(*arguments, **named)
        named.pop("tensor", None)
        named.pop("generator", None)
        fill(torch.empty_like(tensor, device="meta"), *arguments[1:], **named)
        _note(tensor)
        return tensor

    return filled


def _converting(apply: Callable[..., Any], hollow: str) -> Callable[..., Any]:
    """``Module._apply``, as ``half()`` and ``to()`` call it, where unwritten tensors stay so in another type."""

    @functools.wraps(apply)
    def applied(module: torch.nn.Module, convert: Callable[[torch.Tensor], Any], *arguments: Any, **named: Any) -> Any:
        def converted(tensor: torch.Tensor) -> Any:
            if not _is_large(tensor) or not _is_unfilled(tensor, hollow):
                return convert(tensor)
            probe = convert(tensor.new_empty((0,) * tensor.dim()))
            if probe.device.type != "cpu" or probe.dtype == tensor.dtype:
                return convert(tensor)
            try:
                sizes = convert(tensor.to("meta"))
            except NotImplementedError:  # It names the host as its device, which cannot be made from this one.
                return convert(tensor)
            result = torch.empty_like(sizes, device="cpu")
            _note(result)
            return result

        return apply(module, converted, *arguments, **named)

    return applied


def _mapped(load: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.load`` that maps a file instead of reading it, where the program does not say."""

    def loaded(f: Any, *arguments: Any, **named: Any) -> Any:
        if named.get("mmap") is None and isinstance(f, (str, Path)) and zipfile.is_zipfile(f):
            named["mmap"] = True
        return load(f, *arguments, **named)

    return loaded
