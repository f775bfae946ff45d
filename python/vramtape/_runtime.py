"""``libvramtape.so`` in this process: loaded once, called through ctypes, its errors raised, its JSON read.

ctypes cannot carry the C++ exceptions that PyTorch's hooks throw in a process with PyTorch (``vramtape_malloc`` and the
six others that the header names): those are handed to PyTorch by address and never called from here.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

# The interface that this package was written for: VRAMTAPE_ABI_VERSION in vramtape.h.
ABI_VERSION = 1
# The result of a failed call of an export without another result.
FAILED = -1
# Room for statistics, so that they are asked for once.
_TEXT_BYTES = 16 << 10
# Names the folder of the simulated driver. PyTorch and cudarc look for all three libraries.
SIMCUDA = "VRAMTAPE_SIMCUDA"
SIMCUDA_LIBRARIES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")

_int, _long, _u64, _size = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t
_text, _pointer = ctypes.c_char_p, ctypes.c_void_p
_pool = (_u64, _u64)
# The answer and the arguments of every export that Python calls; a new use adds its line.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "abi_version": (ctypes.c_uint32,),
    "version": (_text,),
    "last_error": (_text,),
    "clear_error": (None,),
    "error_count": (_u64,),
    "conf": (_long, _pointer, _size),
    "conf_with": (_long, _text, _pointer, _size),
    "set_settings": (_int, _text),
    "without_hooks": (_int,),
    "set_caching": (None, ctypes.c_bool),
    "is_caching": (ctypes.c_bool,),
    "get_settings": (_long, _pointer, _size),
    "stats": (_long, _int, _pointer, _size),
    "snapshot": (_long, _int, *_pool, _pointer, _size),
    "reset_peak_stats": (_int, _int),
    "reset_accumulated_stats": (_int, _int),
    "get_memory_fraction": (ctypes.c_double, _int),
    "pool_create": (_int, _int, *_pool),
    "pool_set_use_on_oom": (_int, _int, *_pool, ctypes.c_bool),
    "pool_set_no_split": (_int, _int, *_pool),
    "pool_use_count": (_long, _int, *_pool),
    "pool_empty_cache": (_int, _int, *_pool),
    "pool_create_with": (_int, _int, *_pool, _size, _size),
    "release_pool": (None, _int, *_pool),
    "take_snapshot": (_int, *_pool, ctypes.c_bool, _pointer, _pointer),
    "allocation_traceback": (_long, _pointer, _pointer, _size),
    "history_start": (_int, _int, ctypes.c_bool, _u64, ctypes.c_uint32, ctypes.c_bool),
    "history_stop": (_int,),
    "history_is_running": (ctypes.c_bool,),
    "set_memory_metadata": (_int, _text),
    "get_memory_metadata": (_long, _pointer, _size),
    "annotate_memory": (_int, _pointer, _text),
    "add_oom_observer": (_int, _pointer, _pointer),
    "set_oom_dir": (_int, _text),
    "oom_tape": (_long, _int, _pointer, _size),
    "check": (_int, _int),
    "tape_start": (_int, _text),
    "tape_stop": (_int,),
    "tape_save": (_int, _int, _text),
    "tape_save_since": (_long, _pointer, _size, _text),
    "ring_position": (_u64, _int),
    "keep_rings": (_int,),
    "flush": (_int,),
    "finish": (_int,),
    "describe": (_int, _text),
    "watch_signals": (_int,),
    "tapes": (_long, _pointer, _size),
    "mark": (_int, _int, _text),
    "categorize": (_long, _int, _int, _pointer, _size),
    "watch_host_memory": (_int,),
    "host_memory": (ctypes.c_bool, _pointer),
    "wants_marks": (ctypes.c_bool,),
    "wants_module_marks": (ctypes.c_bool,),
    "observe_empty_cache": (_int, _u64, _u64, ctypes.c_bool),
    "observe_memory_fraction": (_int, ctypes.c_double, _int),
    "observe_reset": (_int, _int, ctypes.c_bool),
}


def path() -> Path:
    """The library beside this file, or the one that ``VRAMTAPE_LIBRARY`` names."""
    return Path(os.environ.get("VRAMTAPE_LIBRARY") or Path(__file__).with_name("libvramtape.so"))


@cache
def load() -> ctypes.CDLL:
    """The library, its symbols visible to what is loaded later: the bridge is linked against nothing of ours.

    :raises ImportError: when it cannot be loaded, or belongs to another version of this package
    """
    try:
        library = ctypes.CDLL(str(path()), mode=ctypes.RTLD_GLOBAL)
        for name, (answer, *arguments) in _SIGNATURES.items():
            function = getattr(library, f"vramtape_{name}")
            function.restype, function.argtypes = answer, arguments
    except (OSError, AttributeError) as error:
        advice = "install vramtape again, or name its library in VRAMTAPE_LIBRARY"
        raise ImportError(f"cannot load libvramtape.so: {error}; {advice}") from None
    found = library.vramtape_abi_version()
    if found != ABI_VERSION:
        raise ImportError(
            f"{path()} has interface {found}, this package needs {ABI_VERSION}: install vramtape again, "
            "or let VRAMTAPE_LIBRARY name the library of this version"
        )
    return library


def address(name: str) -> int:
    """Where the export ``vramtape_NAME`` is, for those who take functions as numbers."""
    found = ctypes.cast(getattr(load(), f"vramtape_{name}"), _pointer).value
    assert found is not None, f"vramtape_{name} is NULL"
    return found


def call(name: str, *arguments: Any) -> Any:
    """Calls ``vramtape_NAME`` and gives its answer; texts are encoded as file names are.

    :raises RuntimeError: where it answers that it failed, with what the library says about it
    """
    encoded = [os.fsencode(one) if isinstance(one, (str, os.PathLike)) else one for one in arguments]
    answer = getattr(load(), f"vramtape_{name}")(*encoded)
    if answer == FAILED:
        raise RuntimeError(last_error())
    return answer


def text(name: str, *arguments: Any) -> str:
    """Returns the text that an export writes into a buffer; the buffer and its size are its last two arguments.

    :raises RuntimeError: as :func:`call`
    """
    length = _TEXT_BYTES
    while True:  # It may have grown between two calls.
        buffer = ctypes.create_string_buffer(length + 1)
        length = call(name, *arguments, buffer, len(buffer))
        if length < len(buffer):
            return buffer.value.decode(errors="replace")


def answer(name: str, *arguments: Any) -> Any:
    """The JSON that an export writes, read.

    :raises RuntimeError: as :func:`call`
    """
    return json.loads(text(name, *arguments))


def last_error() -> str:
    """The error of this thread's last failed call."""
    said = load().vramtape_last_error()
    return said.decode(errors="replace") if said else "libvramtape.so failed and did not say why"


def simcuda() -> str:
    """The folder with the simulated driver: the one that ``VRAMTAPE_SIMCUDA`` names, or the wheel's.

    :raises ImportError: where neither is there
    """
    folder = os.environ.get(SIMCUDA) or str(Path(__file__).with_name("_sim"))
    if not os.path.isfile(os.path.join(folder, SIMCUDA_LIBRARIES[0])):
        advice = f"install vramtape from its wheel, or build it (simcuda/README.md) and name its folder in {SIMCUDA}"
        raise ImportError(f"{folder} does not hold the simulated driver: {advice}")
    return folder


def use_simcuda() -> None:
    """Puts the simulated driver, if ``VRAMTAPE_SIMCUDA`` names its folder, where PyTorch will find it.

    In this process only, other than with ``LD_PRELOAD``. Does nothing once torch is there: it has its driver then.

    :raises ImportError: when the folder does not have it
    """
    folder = os.environ.get(SIMCUDA)
    if not folder or "torch._C" in sys.modules:
        return
    try:
        for name in SIMCUDA_LIBRARIES:
            ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(f"{SIMCUDA}={folder} does not hold the simulated driver: {error}") from None
    for name, value in _settings_for_simcuda(folder).items():
        os.environ.setdefault(name, value)


def _settings_for_simcuda(folder: str) -> dict[str, str]:
    """What PyTorch and Triton need beside the simulated driver; the user's own settings go first."""
    return {
        # Triton links its launchers with the driver of this folder.
        "TRITON_LIBCUDA_PATH": folder,
        # Kernels are compiled in this process: a worker of Inductor has no driver.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
