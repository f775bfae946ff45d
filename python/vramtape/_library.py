"""``libvramtape_lab.so``, loaded at the first question."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Union

Text = Union[str, bytes, "os.PathLike[str]"]


@cache
def load() -> ctypes.CDLL:
    """The library beside this file, or the one that ``VRAMTAPE_LAB_LIBRARY`` names."""
    path = os.environ.get("VRAMTAPE_LAB_LIBRARY") or Path(__file__).with_name("libvramtape_lab.so")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{error}; install vramtape again, or name the library in VRAMTAPE_LAB_LIBRARY") from None
    texts, number = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_uint64)
    signatures = {
        "ask": (ctypes.c_void_p, texts, ctypes.c_size_t, ctypes.c_size_t),
        "wait": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, number, number),
        "reply": (ctypes.c_char_p, ctypes.c_void_p),
        "close": (None, ctypes.c_void_p),
        "command": (ctypes.c_int, texts, ctypes.c_size_t),
    }
    for name, (answer, *arguments) in signatures.items():
        function = getattr(library, f"vramtape_lab_{name}")
        function.restype, function.argtypes = answer, arguments
    return library


def strings(texts: Sequence[Text]) -> ctypes.Array[ctypes.c_char_p]:
    """The texts for C, file names as the system has them."""
    encoded = [os.fsencode(text) for text in texts]
    for text in encoded:
        if b"\0" in text:
            raise ValueError(f"embedded null byte in {text!r}")
    return (ctypes.c_char_p * len(encoded))(*encoded)
