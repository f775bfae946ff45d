"""``vramtape.install()`` and ``vramtape.observe()``: what may be done in this process, and by which route."""

from __future__ import annotations

import atexit
import importlib
import os
import re
import sys
import threading
import warnings
from typing import Any, NoReturn, Optional

from . import _atexit, _autograd_shutdown, _conf, _oom_dump, _ring_only, _runtime, _tape, _text, marks
from ._launch import tapes
from .routes import ALL, REPLACING, Unavailable

# The oldest torch with all hooks and names that the routes stand on.
TORCH_MIN = (2, 7)

_lock = threading.Lock()
_active: Optional[str] = None
_note = ""


class InstallError(RuntimeError):
    """vramtape cannot be in this process; the text says why and what to do."""

    __module__ = "vramtape"


class NoCuda(InstallError):
    """There is nothing to allocate: torch without CUDA, no driver or no GPU. Training on the CPU needs no vramtape."""

    __module__ = "vramtape"


def install(route: Optional[str] = None, *, tape: Optional[_tape.Path] = None, conf: Optional[str] = None) -> str:
    """Makes vramtape PyTorch's allocator in this process, and returns the route it took.

    Has to come before the first use of CUDA: best as the first lines of the program. A second call changes nothing and
    returns the route that is active, also under ``python -m vramtape run``. Without ``tape``, and where
    ``VRAMTAPE_CONF`` names none, the events are in a ring in memory only, which ``vramtape recover`` reads afterwards.

    :param route: ``"bridge"``, ``"pluggable"``, ``"observe"``, or ``"auto"``: the bridge, or the pluggable allocator
        where the bridge is unavailable, with a warning that says why. The default is ``route`` in ``VRAMTAPE_CONF``,
        whose default is ``auto``
    :param tape: where the tape goes, a path in which ``{rank}``, ``{pid}`` and ``{device}`` are filled in. If a file
        exists there, the tape takes a free name beside it, and a warning says which
    :param conf: changes to ``VRAMTAPE_CONF``, such as ``"stacks:alloc,tape_max:2GiB"``; ``"tape_replace:True"``
        replaces a tape that exists. The processes that this one starts have them too
    :raises vramtape.InstallError: when the settings are refused, when it is too late, when another allocator, another
        route or other settings are active, when the route is unavailable, without CUDA, or with a torch older than 2.7
    """
    global _active
    if route not in (None, "auto", *ALL):
        raise InstallError(f"route={route!r}: there is no such route; take one of {', '.join(('auto', *ALL))}")
    _torch()  # Before the lock: under `vramtape run`, the import of torch calls this function.
    with _lock:
        if _active is not None and route in (None, "auto", _active):
            _check_same(tape, conf)
            return _active
        if _active is not None:
            _refuse(
                f"the route {_active} is active already, and a process has one: ask for route={route!r} at the first "
                f"call, before CUDA is used, or start with `python -m vramtape run --route {route}`"
            )
        before = os.environ.get("VRAMTAPE_CONF")
        try:
            _conf.apply(_conf.changes(tape, conf))
        except (RuntimeError, ValueError) as error:
            _refuse(str(error))
        try:
            _active = _enter(route)
        except BaseException:
            _conf.restore(before)
            raise
        _atexit.watch()
        _ring_only.watch()
        _atexit.watch_exception()  # Registered last, so that it runs first.
        _autograd_shutdown.watch()
        _mark()
        _oom_dump.watch_if_set()
        return _active


def observe(*, tape: Optional[_tape.Path] = None, conf: Optional[str] = None) -> str:
    """Records what PyTorch's own allocator does, and leaves it PyTorch's: ``install(route="observe")``.

    May come after CUDA was used: what is allocated by then is the state that the tape begins with.

    :param tape: where the tape goes, as for :func:`install`
    :param conf: changes to ``VRAMTAPE_CONF``, as for :func:`install`
    :raises vramtape.InstallError: as :func:`install`; also where vramtape is the allocator, which records already
    """
    return install(route="observe", tape=tape, conf=conf)


def active_route() -> Optional[str]:
    """The route by which vramtape is in this process, or None."""
    return _active


def note() -> str:
    """Why the route that is active is not the first of all, if it is not."""
    return _note


def _enter(route: Optional[str]) -> str:
    """Takes the route with the settings of the environment, where nothing stands against it."""
    if route is None:
        route = _configured()
    torch = _torch()
    _check_torch(torch)
    _check_fork(torch)
    if route != "observe":
        _check_unused(torch)
    _check_cuda(torch)
    return _activate(torch, route)


def _activate(torch: Any, route: str) -> str:
    """Activates the route, or the first that is available."""
    global _note
    reasons = []
    for name in REPLACING if route == "auto" else (route,):
        try:
            lacking = importlib.import_module(f".routes.{name}", __package__).activate()
        except Unavailable as error:
            reasons.append(f"{name}: {error}")
            continue
        except RuntimeError as error:
            if "already initialized" in str(error):
                _refuse(_TOO_LATE)
            raise
        if lacking:
            reasons.append(lacking)
        if reasons:
            _note = f"took the route {name} ({'; '.join(reasons)})"
            _text.warn(f"vramtape {_note}", stacklevel=4)
        return name
    _refuse("; ".join(reasons))


def _check_same(tape: Optional[_tape.Path], conf: Optional[str]) -> None:
    """Arguments that would change the settings in force are refused.

    Under ``python -m vramtape run`` these are the launcher's, and a program that has arguments of its own goes on.
    """
    try:
        is_same = _conf.is_in_force(_conf.changes(tape, conf))
    except (RuntimeError, ValueError) as error:
        _refuse(str(error))
    if is_same:
        return
    if tapes.FIRST in os.environ:
        warnings.warn("vramtape run has decided about tape and settings: tape= and conf= change nothing", stacklevel=3)
        return
    active = os.environ.get("VRAMTAPE_CONF", "")
    _refuse(f"vramtape is active already, with VRAMTAPE_CONF={active!r}: {_conf.READ_ONCE}, before CUDA is used")


def _mark() -> None:
    """Begins the marks that the settings want."""
    if _runtime.call("wants_marks"):
        from . import _automatic

        _automatic.activate()
        atexit.register(marks.record_host_memory)


_TOO_LATE = (
    "too late: PyTorch's CUDA allocator was used already, and it cannot be replaced then. Call vramtape.install() "
    "before anything uses CUDA (best as the first lines of the program), or start the program with "
    "`python -m vramtape run`; vramtape.observe() records PyTorch's own allocator from here on"
)


def _configured() -> str:
    """The route that the environment names."""
    try:
        return str(_runtime.answer("conf")["route"])
    except RuntimeError as error:
        _refuse(str(error))


def _torch() -> Any:
    """PyTorch, on the simulated driver where one is named."""
    _runtime.use_simcuda()
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        _refuse(f"{sys.executable} has no torch: install PyTorch there, or run with the Python that has it")
    return torch


def _check_torch(torch: Any) -> None:
    """The version and the build."""
    version = str(torch.__version__)
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < TORCH_MIN:
        needed = ".".join(map(str, TORCH_MIN))
        _refuse(f"torch {version} is too old: vramtape needs {needed} or later; `pip install -U torch`")
    if torch.version.cuda is None or not hasattr(torch._C, "_cuda_customAllocator"):
        raise NoCuda(f"torch {version} is built without CUDA: install a build with it (pytorch.org says which)")


def _check_fork(torch: Any) -> None:
    """CUDA does not survive a fork."""
    if torch._C._cuda_isInBadFork():
        _refuse(
            "this process was forked from one that uses CUDA, where CUDA cannot be used: start it with the method "
            "'spawn' or 'forkserver' of multiprocessing"
        )


def _check_unused(torch: Any) -> None:
    """An allocator is replaced before its first use, and once."""
    backend = torch.cuda.memory.get_allocator_backend()
    if backend == "pluggable":
        _refuse(
            "another allocator was made PyTorch's in this process, and that cannot be undone: leave out the call of "
            "torch.cuda.memory.change_current_allocator, or the library that makes it"
        )
    if torch.cuda.is_initialized():
        _refuse(_TOO_LATE)


def _check_cuda(torch: Any) -> None:
    """A driver and a GPU, as far as can be seen without initialising CUDA: who did that cannot fork and use it."""
    count = getattr(torch.cuda, "_device_count_nvml", lambda: -1)()
    if count == 0:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
        raise NoCuda(f"no GPU{hidden}: `nvidia-smi` lists those of this machine{_simulate()}")
    if count < 0:  # Without NVML only the driver's library can be looked for.
        try:
            import ctypes

            ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            advice = "`nvidia-smi` has to work first"
            if os.environ.get("VRAMTAPE_SIMCUDA"):
                advice = "that of VRAMTAPE_SIMCUDA has to come before torch: install vramtape before importing it"
            raise NoCuda(f"no NVIDIA driver: {error}; {advice}{_simulate()}") from None


def _simulate() -> str:
    """The advice for a machine without a GPU."""
    return "" if os.environ.get(_runtime.SIMCUDA) else "; `vramtape run --sim` simulates one"


def _refuse(reason: str) -> NoReturn:
    raise InstallError(reason) from None
