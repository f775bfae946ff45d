"""The content of tensors on the simulated device, as far as it is known on the host.

It belongs to a storage, so that views have it too, and to a version of the tensor: an operator that changes a tensor in
place raises the version, which drops the content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# Larger storages are not mirrored.
KNOWN_MAX_BYTES = 64 << 10
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Number of entries at which those of freed storages are first dropped.
_SWEEP_MIN = 1024


@dataclass
class Content:
    """The content of a storage, one of four kinds."""

    # A copy of the whole storage in host memory.
    mirror: Optional[torch.UntypedStorage] = None
    # The value of every element: one element on the host.
    uniform: Optional[torch.Tensor] = None
    # The expected share of elements that are not zero.
    density: Optional[float] = None
    # Every element is one of this many indices, all of them equally frequent.
    classes: Optional[int] = None
    # Whether it depends on a guess.
    is_guess: bool = False
    # The version of the tensors to which it belongs.
    version: int = -1


class Contents:
    """The contents by storage."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[StorageWeakRef, Content]] = {}
        self._sweep_at = _SWEEP_MIN

    def find(self, tensor: torch.Tensor) -> Optional[Content]:
        """The content of a tensor's storage, unless the tensor was changed since."""
        entry = self._entries.get(tensor.untyped_storage()._cdata)
        if entry is None:
            return None
        content = entry[1]
        if content.version != version(tensor):
            return None
        if content.uniform is not None and content.uniform.dtype != tensor.dtype:
            return None
        return content

    def drop(self, tensor: torch.Tensor) -> None:
        """Drops the content of a tensor's storage."""
        self._entries.pop(tensor.untyped_storage()._cdata, None)

    def set(self, tensor: torch.Tensor, content: Content) -> None:
        """Sets the content of a tensor's storage.

        In a capture nothing is kept: replays of the CUDA graph change the tensor without another call.
        """
        if torch._C._cuda_isCurrentStreamCapturing():
            return
        content.version = version(tensor)
        reference = StorageWeakRef(tensor.untyped_storage())
        self._entries[reference.cdata] = (reference, content)
        if len(self._entries) >= self._sweep_at:
            entries = list(self._entries.items())
            self._entries = {key: entry for key, entry in entries if not entry[0].expired()}
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._entries))

    def set_values(
        self, tensor: torch.Tensor, values: torch.Tensor, is_guess: bool = False, before: Optional[int] = None
    ) -> None:
        """Sets the elements of a tensor, which is the whole of its storage or part of one that is known.

        :param before: the version of the tensor before an operator that changed it
        """
        storage = tensor.untyped_storage()
        size_bytes = storage.nbytes()
        if size_bytes > KNOWN_MAX_BYTES or tensor.numel() == 0:
            return
        entry = self._entries.get(storage._cdata)
        old = entry[1] if entry and entry[1].version == before else None
        if old and old.mirror is not None and old.mirror.nbytes() == size_bytes:
            mirror, is_guess = old.mirror, is_guess or old.is_guess
        elif old and old.uniform is not None and old.uniform.dtype == tensor.dtype:
            elements = old.uniform.repeat(size_bytes // tensor.element_size())
            mirror, is_guess = elements.untyped_storage(), is_guess or old.is_guess
        elif is_whole(tensor):
            mirror = torch.UntypedStorage(size_bytes, device="cpu")
        else:
            return
        _view(tensor, mirror).copy_(values)
        self.set(tensor, Content(mirror=mirror, is_guess=is_guess))

    def set_content(self, tensor: torch.Tensor, content: Content, before: Optional[int] = None) -> None:
        """Sets a content without mirror, of a tensor that may be part of its storage."""
        if is_whole(tensor):
            self.set(tensor, content)
        elif content.uniform is not None:
            self.set_values(tensor, content.uniform.expand(tensor.shape), content.is_guess, before)


contents = Contents()


def version(tensor: torch.Tensor) -> int:
    """The version of a tensor. One of inference mode has none."""
    return 0 if tensor.is_inference() else int(tensor._version)


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor has every element of its storage."""
    if tensor.storage_offset() != 0 or tensor.numel() * tensor.element_size() != tensor.untyped_storage().nbytes():
        return False
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    return bool(tensor.is_contiguous()) or extent == tensor.numel()


def values(tensor: torch.Tensor, content: Optional[Content]) -> Optional[torch.Tensor]:
    """The elements of a tensor on the host, where they are known and small."""
    if content is None:
        return None
    if content.mirror is not None:
        return _view(tensor, content.mirror)
    if content.uniform is not None and tensor.numel() * tensor.element_size() <= KNOWN_MAX_BYTES:
        return content.uniform.expand(tensor.shape)
    return None


def element(tensor: torch.Tensor, content: Optional[Content]) -> Optional[torch.Tensor]:
    """One element of a tensor whose elements are equal."""
    if content is None or content.uniform is not None:
        return content and content.uniform
    elements = values(tensor, content)
    if elements is None or elements.numel() == 0:
        return None
    first = elements.reshape(-1)[0]
    return first if bool((elements == first).all()) else None


def is_on_device(argument: Any) -> bool:
    """Whether an argument is a tensor on the device, and no subclass, such as those that trace a program."""
    return type(argument) in _PLAIN and argument.is_cuda


def is_ignored(tensor: torch.Tensor) -> bool:
    """Whether nothing is kept of a tensor, which is quick: of large floats, as most are."""
    is_large = tensor.numel() * tensor.element_size() > KNOWN_MAX_BYTES
    return is_large and bool(tensor.dtype.is_floating_point)


def tensors(given: Any) -> list[torch.Tensor]:
    """The tensors of arguments, or of a result."""
    if isinstance(given, torch.Tensor):
        return [given]
    return [tensor for one in given for tensor in tensors(one)] if isinstance(given, (list, tuple)) else []


def _view(tensor: torch.Tensor, mirror: torch.UntypedStorage) -> torch.Tensor:
    """The part of a mirror that a tensor has of its storage."""
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(mirror, tensor.storage_offset(), tensor.size(), tensor.stride())
