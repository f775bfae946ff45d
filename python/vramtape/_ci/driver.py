"""The driver under the tests, a GPU's or the simulated one, and vramtape as PyTorch's allocator."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from typing import Optional

import pytest

from .. import _install, _ring_only, _runtime
from .._launch import simulated

# Exits with 0 if a GPU is visible. A process of its own, because one that initialised CUDA cannot fork and use it.
_PROBE = """
import ctypes, sys
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
sys.exit(driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0)
"""
_PROBE_LIMIT_S = 60
# Of one call; the driver cuts the text there.
_TEXT_BYTES = 1 << 16
_TOO_LATE = (
    "torch was imported before the simulated driver was loaded, by another plugin or by the program that started "
    "pytest; start with `python -m vramtape run --sim -m pytest --vramtape`"
)


def choose(gpu: Optional[str]) -> str:
    """Puts the simulated driver into the environment, if it is asked for or there is no GPU.

    Returns the line to print about the driver.

    :param gpu: the value of ``--vramtape-sim``, or None without the option
    :raises pytest.UsageError: if there is no such GPU, or torch has its driver already
    """
    is_chosen = bool(os.environ.get(_runtime.SIMCUDA))
    if gpu is None and not is_chosen and _has_gpu():
        return "measured on this machine's GPU"
    if "torch._C" in sys.modules and not NotSimulated.is_simulated():
        raise pytest.UsageError(f"--vramtape: {_TOO_LATE}")
    if gpu is None and is_chosen:
        return "simulated GPU: allocations are real, values (losses, metrics) are not"
    try:
        return simulated.prepare(gpu or "", "--vramtape-sim")
    except (ImportError, RuntimeError, ValueError) as error:
        raise pytest.UsageError(f"--vramtape: {error}") from None


def enter() -> str:
    """Makes vramtape PyTorch's allocator as ``VRAMTAPE_CONF`` says, with all stacks, and returns the route.

    :raises pytest.UsageError: if it cannot be, with the reason
    """
    try:
        _runtime.use_simcuda()
        _install._torch()  # Under `vramtape run` this installs vramtape.
        route = _install.active_route()
        if route is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="vramtape took the route")
                route = _install.install(conf=_missing_settings())
            _ring_only.forget()
        if _runtime.answer("conf")["record"] == "off":
            raise _install.InstallError("VRAMTAPE_CONF has record:off: leave it out, tests are measured by the records")
        if route == "observe" and _install.note():
            raise _install.InstallError(f"{_install.note()}: choose another route in VRAMTAPE_CONF")
    except (ImportError, RuntimeError) as error:
        raise pytest.UsageError(f"--vramtape: {error}") from None
    return f"route {route}"


def _missing_settings() -> Optional[str]:
    """Every allocation has its stack, unless the settings name a key of stacks."""
    names_stacks = re.search(r"(^|,)\s*stacks(_every|_native)?\s*:", os.environ.get("VRAMTAPE_CONF", ""))
    return None if names_stacks else "stacks:alloc"


def _has_gpu() -> bool:
    probe = [sys.executable, "-I", "-S", "-c", _PROBE]
    try:
        return subprocess.run(probe, capture_output=True, timeout=_PROBE_LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class NotSimulated:
    """The driver calls of this process that the simulated driver refused; a GPU's driver has none."""

    def __init__(self) -> None:
        self._seen = self._counts()

    @staticmethod
    def is_simulated() -> bool:
        """Whether the driver that this process has loaded is the simulated one."""
        try:
            return hasattr(ctypes.CDLL("libcuda.so.1"), "simcuda_not_simulated")
        except OSError:
            return False

    def new(self) -> list[str]:
        """The calls since the last look, by name."""
        counts = self._counts()
        names = sorted(counts - self._seen)
        self._seen = counts
        return names

    def _counts(self) -> Counter[str]:
        if not self.is_simulated():
            return Counter()
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        ctypes.CDLL("libcuda.so.1").simcuda_not_simulated(buffer, len(buffer))
        lines = (line.split(" ", 1) for line in buffer.value.decode(errors="replace").splitlines())
        return Counter({name: int(count) for count, name in lines})
