"""The content of tensors on the simulated device, as far as it is known on the host.

It belongs to a storage, so that views have it too, and to a version of the tensor: an operator that changes a tensor in
place raises the version, and what was known of the tensor before no longer counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# Larger storages are not mirrored.
KNOWN_MAX_BYTES = 64 << 10
# Entries before storages that are gone are first looked for.
_SWEEP_MIN = 1024


@dataclass
class Content:
    """What is known of a storage: one of the three, and the version of its tensors to which it belongs."""

    version: int
    # A copy of the whole storage in host memory.
    mirror: Optional[torch.UntypedStorage] = None
    # The value of every element: one element on the host.
    uniform: Optional[torch.Tensor] = None
    # The expected share of elements that are not zero.
    density: Optional[float] = None
    # Whether it rests on a guess.
    is_guess: bool = False


class Contents:
    """The contents by storage. Storages that are gone are dropped from time to time."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[StorageWeakRef, Content]] = {}
        self._sweep_at = _SWEEP_MIN

    def find(self, tensor: torch.Tensor) -> Optional[Content]:
        """The content of a tensor's storage, unless the tensor was changed since."""
        entry = self._entries.get(tensor.untyped_storage()._cdata)
        if entry is None or entry[1].version != version(tensor):
            return None
        content = entry[1]
        if content.uniform is not None and content.uniform.dtype != tensor.dtype:
            return None
        return content

    def set(self, tensor: torch.Tensor, content: Content) -> None:
        """Sets the content of a tensor's storage."""
        reference = StorageWeakRef(tensor.untyped_storage())
        self._entries[reference.cdata] = (reference, content)
        if len(self._entries) >= self._sweep_at:
            self._entries = {key: entry for key, entry in self._entries.items() if not entry[0].expired()}
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._entries))

    def set_values(self, tensor: torch.Tensor, values: torch.Tensor, changed: int, is_guess: bool = False) -> None:
        """Sets the elements of a tensor, which is the whole of its storage or part of one that is known.

        :param changed: the version that the tensor has after the operator
        """
        storage = tensor.untyped_storage()
        size_bytes = storage.nbytes()
        if size_bytes > KNOWN_MAX_BYTES or tensor.numel() == 0:
            return
        entry = self._entries.get(storage._cdata)
        old = entry[1] if entry and entry[1].version == version(tensor) else None
        if old and old.mirror is not None and old.mirror.nbytes() == size_bytes:
            mirror, is_guess = old.mirror, is_guess or old.is_guess
        elif old and old.uniform is not None and old.uniform.dtype == tensor.dtype:
            elements = old.uniform.expand(size_bytes // tensor.element_size()).contiguous()
            mirror, is_guess = elements.untyped_storage(), is_guess or old.is_guess
        else:
            if not is_whole(tensor):
                return
            mirror = torch.UntypedStorage(size_bytes, device="cpu")
        view(tensor, mirror).copy_(values)
        self.set(tensor, Content(changed, mirror=mirror, is_guess=is_guess))


def version(tensor: torch.Tensor) -> int:
    """The version of a tensor. One of inference mode has none."""
    return 0 if tensor.is_inference() else tensor._version


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor has every element of its storage."""
    if tensor.storage_offset() != 0 or tensor.numel() * tensor.element_size() != tensor.untyped_storage().nbytes():
        return False
    return tensor.is_contiguous() or _extent(tensor) == tensor.numel()


def _extent(tensor: torch.Tensor) -> int:
    """The distance from the first element to behind the last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))


def view(tensor: torch.Tensor, mirror: torch.UntypedStorage) -> torch.Tensor:
    """The part of a mirror that a tensor has of its storage."""
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(mirror, tensor.storage_offset(), tensor.size(), tensor.stride())


def values(tensor: torch.Tensor, content: Content) -> Optional[torch.Tensor]:
    """The elements of a tensor on the host, where they are known and small."""
    if content.mirror is not None:
        return view(tensor, content.mirror)
    if content.uniform is not None and tensor.numel() * tensor.element_size() <= KNOWN_MAX_BYTES:
        return content.uniform.expand(tensor.shape)
    return None
