"""Building the C++ class, once for each torch, and finding what was built.

A file is named by what it was built from: torch's git version, our interface and sources, and the compiler's ABI. It is
written under a temporary name and renamed, so that no process loads half of one, in a folder that only this user can
write. Of processes that start together one builds, and the others wait for it. A build that failed is remembered with
its reason and not tried again, until something of this changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import _runtime, _text
from . import toolchain, trust

_HERE = Path(__file__).parent
SOURCES = _HERE / "cpp"
# Built beforehand, as `prebuilt/KEY.so`: in the wheel of `cargo xtask wheel`, and in the bundle for a GPU.
PREBUILT = _HERE / "prebuilt"
# Compiling takes about ten seconds, on a machine with much else to do some minutes.
_LIMIT_SECONDS = 900


# Compiler messages caused by the machine, not by the sources.
_DISTURBANCES = ("No space left", "quota exceeded", "Killed", "out of memory", "Cannot allocate memory")


class BuildFailed(RuntimeError):
    """The bridge cannot be built here; the text says why and what to do."""


class _Disturbed(BuildFailed):
    """The machine had no room, no memory or no patience: the next process tries again."""


def library(torch: Any) -> Path:
    """The bridge for the torch in this process, built now if need be.

    :raises BuildFailed: when it has to be built and cannot be
    """
    name = f"{key(torch)}.so"
    prebuilt = PREBUILT / name
    if prebuilt.is_file():
        return prebuilt
    built = cache() / name
    try:
        if trust.is_ours(built):
            return built
        trust.make_private(cache())
        with _only_one(built.with_suffix(".lock")):
            if not trust.is_ours(built):
                _build_in_cache(torch, built)
    except trust.Untrusted as error:
        raise BuildFailed(str(error)) from None
    except OSError as error:
        advice = "make room there, or name another folder in VRAMTAPE_CACHE"
        raise BuildFailed(f"what is compiled cannot be kept in {cache()}: {error.strerror}; {advice}") from None
    return built


def cache() -> Path:
    """Where builds are kept: ``VRAMTAPE_CACHE``, else under ``XDG_CACHE_HOME`` or ``~/.cache``."""
    own = os.environ.get("VRAMTAPE_CACHE")
    if own:
        return Path(own) / "bridge"
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "vramtape" / "bridge"


def key(torch: Any) -> str:
    """Returns the key that names a build."""
    sources = hashlib.sha256()
    files = {*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h"), header()}
    for path in sorted(files, key=lambda path: path.name):  # The same in a checkout and as installed.
        sources.update(path.name.encode() + b"\0" + path.read_bytes())
    parts = (
        f"torch-{torch.__version__}",
        str(torch.version.git_version)[:12],
        f"abi{_runtime.ABI_VERSION}",
        f"cxx11abi{int(torch.compiled_with_cxx11_abi())}",
        sources.hexdigest()[:16],
    )
    return "-".join(parts)


def header() -> Path:
    """``vramtape.h``: beside the sources as installed, in ``ffi/include`` of a checkout."""
    installed = SOURCES / "vramtape.h"
    return installed if installed.is_file() else _HERE.parents[2] / "ffi" / "include" / "vramtape.h"


def failure(torch: Any) -> Path:
    """Where it is remembered that this build failed, and why."""
    return cache() / f"{key(torch)}.failed"


def _build_in_cache(torch: Any, built: Path) -> None:
    known = failure(torch)
    if known.is_file():
        raise BuildFailed(f"{known.read_text()}\n(remembered: remove {known} to try again)")
    missing = toolchain.find(torch).missing
    if missing:  # Not remembered: it is found at once, and soon put right.
        raise BuildFailed("; ".join(missing))
    _text.say(f"compiling its bridge for torch {torch.__version__}, once (about 20 s)")
    try:
        _compile(torch, built)
    except _Disturbed:
        raise
    except BuildFailed as error:
        known.write_text(str(error))
        raise


def _compile(torch: Any, built: Path) -> None:
    tools = toolchain.find(torch)
    if tools.missing:
        raise BuildFailed("; ".join(tools.missing))
    # Named after the build: `vramtape clean` leaves the files of one whose lock is held.
    handle, temporary = tempfile.mkstemp(prefix=f"{built.stem}.", suffix=".so", dir=built.parent)
    os.close(handle)
    includes = [f"-isystem{folder}" for folder in tools.includes]
    command = [tools.compiler, *toolchain.flags(torch), f"-I{header().parent}", *includes]
    command += [str(SOURCES / "bridge.cpp"), "-o", temporary, *toolchain.libraries(torch)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS)
        if made.returncode < 0:
            raise _Disturbed(f"the compiler was killed by signal {-made.returncode}: {' '.join(command)}")
        if made.returncode != 0:
            is_disturbed = any(words in made.stderr for words in _DISTURBANCES)
            failed = _Disturbed if is_disturbed else BuildFailed
            raise failed(f"the compiler failed: {' '.join(command)}\n{_gist(made.stderr)}")
        os.chmod(temporary, 0o755)
        os.replace(temporary, built)
    except subprocess.TimeoutExpired:
        # A busy machine, and not the sources: not remembered.
        raise _Disturbed(f"the compiler was not done after {_LIMIT_SECONDS} s: {' '.join(command)}") from None
    except OSError as error:
        raise _Disturbed(f"cannot build {built}: {error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _gist(errors: str) -> str:
    """The first errors of a compiler, which has much to say after them."""
    lines = errors.splitlines()
    telling = [line for line in lines if "error" in line or "undefined" in line]
    return "\n".join((telling or lines)[:8])


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Holds the lock, waiting for a process that has it. The file stays: another one may be waiting for it."""
    with open(lock, "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
