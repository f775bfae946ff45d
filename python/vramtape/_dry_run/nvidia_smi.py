"""``nvidia-smi`` of a dry run: programs that print the GPUs of their machine print the simulated ones.

It answers without arguments, ``-L`` and ``--query-gpu=FIELDS --format=csv``, as NVIDIA's own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Optional

from .. import _runtime

_NAME = "nvidia-smi"
_ROOM_BYTES = 96
# The branch with the version of CUDA that the simulated driver has; there is no such release.
_DRIVER = "595.0"
_NOT_AVAILABLE = "[N/A]"


def provide(folder: Path) -> None:
    """Puts the command at the end of this process's ``PATH``, in ``folder``, where the machine has none."""
    if shutil.which(_NAME):
        return
    folder.mkdir()
    command = folder / _NAME
    package = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {package!r}); from {__name__} import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -c {shlex.quote(program)} "$@"\n')
    command.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(folder))))


class _Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Nvml:
    """The simulated driver's NVML."""

    def __init__(self) -> None:
        for name in _runtime.SIMCUDA_LIBRARIES:
            self._library = ctypes.CDLL(os.path.join(_runtime.simcuda(), name), mode=ctypes.RTLD_GLOBAL)
        self._call("nvmlInit_v2")

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise OSError(f"{name} of the simulated driver returned {status}")

    def gpus(self) -> list[dict[str, str]]:
        """The fields of each GPU, by the names of ``--query-gpu``; sizes are in MiB."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._gpu(index, count.value) for index in range(count.value)]

    def _gpu(self, index: int, count: int) -> dict[str, str]:
        device, memory, major, minor = ctypes.c_void_p(), _Memory(), ctypes.c_int(), ctypes.c_int()
        self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
        self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        self._call("nvmlDeviceGetCudaComputeCapability", device, ctypes.byref(major), ctypes.byref(minor))
        return {
            "index": str(index),
            "count": str(count),
            "name": self._text("nvmlDeviceGetName", device),
            "uuid": self._text("nvmlDeviceGetUUID", device),
            "driver_version": _DRIVER,
            "compute_cap": f"{major.value}.{minor.value}",
            **{f"memory.{name}": f"{getattr(memory, name) >> 20} MiB" for name in ("total", "used", "free")},
        }

    def _text(self, name: str, device: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_ROOM_BYTES)
        self._call(name, device, text, _ROOM_BYTES)
        return text.value.decode()


def main(arguments: Optional[list[str]] = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog=_NAME, description="The GPUs of a dry run of vramtape.", allow_abbrev=False)
    parser.add_argument("-L", "--list-gpus", action="store_true", help="list the GPUs")
    parser.add_argument("-i", "--id", metavar="INDEX", help="only these GPUs, separated by commas")
    parser.add_argument("--query-gpu", metavar="FIELDS", help="print these fields, separated by commas")
    parser.add_argument("--format", default="csv", help="csv, and optionally noheader and nounits")
    options, others = parser.parse_known_args(arguments)
    if others:
        print(f"{_NAME} of a dry run does not simulate {' '.join(others)}", file=sys.stderr)
        return 1
    wanted = options.id.split(",") if options.id else None
    gpus = [gpu for gpu in _Nvml().gpus() if wanted is None or gpu["index"] in wanted or gpu["uuid"] in wanted]
    if not gpus:
        print("No devices were found")
        return 6
    if options.list_gpus:
        print("\n".join(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})" for gpu in gpus))
    elif options.query_gpu:
        print(_csv(gpus, options.query_gpu.split(","), options.format.replace(" ", "").split(",")))
    else:
        print(_summary(gpus))
    return 0


def _csv(gpus: list[dict[str, str]], fields: list[str], form: list[str]) -> str:
    names = [{"gpu_name": "name", "gpu_uuid": "uuid"}.get(field.strip(), field.strip()) for field in fields]
    rows = [[gpu.get(name, _NOT_AVAILABLE) for name in names] for gpu in gpus]
    if "nounits" in form:
        rows = [[value.removesuffix(" MiB") for value in row] for row in rows]
    if "noheader" not in form:
        units = " [MiB]"
        rows.insert(0, [name + (units if name.startswith("memory.") else "") for name in names])
    return "\n".join(", ".join(row) for row in rows)


def _summary(gpus: list[dict[str, str]]) -> str:
    lines = [f"NVIDIA-SMI {_DRIVER}, simulated by vramtape"]
    for gpu in gpus:
        lines.append(f"| {gpu['index']}  {gpu['name']} | {gpu['memory.used']} / {gpu['memory.total']} |")
    return "\n".join(lines)
