"""Files of weights whose data are holes: a header with names, types and shapes, and no bytes on disk.

A hole reads as zeros. The format is that of safetensors: the size of the header as 8 bytes, the header as JSON, data.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

import torch

# Bytes before the header.
SIZE_BYTES = 8
# As of safetensors: a larger header is refused.
_HEADER_MAX_BYTES = 100_000_000
_ALIGNMENT_BYTES = 8
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: Union[str, os.PathLike[str]],
    metadata: Optional[Mapping[str, str]] = None,
) -> None:
    """As ``safetensors.torch.save_file``, of the sizes only.

    :raises KeyError: for a type that the format does not have
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end_bytes = 0
    for name, tensor in tensors.items():
        start_bytes, end_bytes = end_bytes, end_bytes + tensor.numel() * tensor.element_size()
        offsets = [start_bytes, end_bytes]
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT_BYTES)
    with Path(filename).open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + end_bytes)


def data_bytes(start: bytes) -> int:
    """The bytes of all tensors of a file that starts so, with its whole header.

    :raises ValueError: for a header that is not one
    """
    tensors: dict[str, Any] = json.loads(start[SIZE_BYTES : header_end_bytes(start)])
    tensors.pop("__metadata__", None)
    return max((int(one["data_offsets"][1]) for one in tensors.values()), default=0)


def file_data_bytes(path: Path) -> int:
    """The bytes of all tensors of a file."""
    with path.open("rb") as file:
        start = file.read(SIZE_BYTES)
        return data_bytes(start + file.read((header_end_bytes(start) or SIZE_BYTES) - SIZE_BYTES))


def header_end_bytes(start: bytes) -> Optional[int]:
    """Where the header of a file with this start ends; None for a start that is too short.

    :raises ValueError: for a file of another format
    """
    if len(start) < SIZE_BYTES:
        return None
    size_bytes = int(struct.unpack_from("<Q", start)[0])
    if size_bytes > _HEADER_MAX_BYTES:
        raise ValueError(f"a header of {size_bytes} bytes")
    return SIZE_BYTES + size_bytes
