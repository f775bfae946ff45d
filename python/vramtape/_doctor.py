"""``vramtape doctor``: checks which integration route works in this environment, and reports what the others lack."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import stat
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, Optional

from . import _install, _library, _runtime
from ._text import Parser, visible

# Where the library keeps its rings.
RINGS = Path(os.environ.get("VRAMTAPE_RINGS") or "/dev/shm")
_CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_VARIABLES = (
    "VRAMTAPE_CONF",
    "VRAMTAPE_RINGS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "CUDA_VISIBLE_DEVICES",
)


def main(verb: str, arguments: Sequence[str]) -> NoReturn:
    """Prints the report; the exit code is 1 where vramtape cannot be in a process here."""
    about = "Check which integration route works with the PyTorch of this Python, and what the others lack."
    parser = Parser(prog=f"vramtape {verb}", description=about, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    report = examine()
    print(visible(json.dumps(report, indent=2) if options.json else "\n".join(_lines(report))))
    sys.exit(0 if report["route"]["active"] else 1)


def examine() -> dict[str, Any]:
    """Returns the report. Activates the route in this process: only that shows whether the route is available."""
    route = _route()
    return {
        "vramtape": {"version": _version(), "library": _library_version(), "path": str(_runtime.path())},
        "python": {"version": platform.python_version(), "path": sys.executable},
        "torch": _torch(),
        "driver": _driver(),
        "clock": _clock(),
        "route": route,
        "bridge": _bridge(),
        "settings": {**_settings(), **{name: os.environ[name] for name in _VARIABLES if name in os.environ}},
        "rings": _folder(RINGS, "vramtape-*"),
        "cache": _cache(),
        "lab": str(_lab_path()),
    }


def _route() -> dict[str, Any]:
    """The route that is taken, and what was said of the others; or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It is in the report.
        try:
            return {"active": _install.install(), "why": _install.note()}
        except (ImportError, RuntimeError) as error:
            return {"active": None, "why": str(error)}


def _torch() -> Optional[dict[str, Any]]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    return {"version": str(torch.__version__), "cuda": torch.version.cuda, "path": str(Path(torch.__file__).parent)}


def _driver() -> dict[str, Any]:
    """The driver's version as CUDA numbers it, and the GPUs that torch sees."""
    simulated = os.environ.get("VRAMTAPE_SIMCUDA") or None
    report: dict[str, Any] = {"simulated": simulated, "cuda": None, "gpus": []}
    try:
        version = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0:
            report["cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    except (OSError, AttributeError) as error:
        report["error"] = str(error)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        for device in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(device)
            report["gpus"].append({"name": properties.name, "memory_bytes": properties.total_memory})
    return report


def _clock() -> dict[str, Any]:
    """The clock source of Linux, and whether records have the time stamp counter's time (``recorder/src/clock.rs``)."""
    try:
        source: Optional[str] = Path(_CLOCK_SOURCE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        source = None
    return {"source": source, "is_counter": source == "tsc"}


def _bridge() -> Optional[dict[str, Any]]:
    """The result of the bridge's own check; None without a torch to build it for."""
    torch = sys.modules.get("torch")
    if torch is None or torch.version.cuda is None:
        return None
    from ._bridge.check import check

    found = check(torch)
    built = str(found.built) if found.built else None
    return {"built": built, "compiler": found.compiler or None, "problems": list(found.problems)}


def _settings() -> dict[str, Any]:
    try:
        conf: dict[str, Any] = _runtime.answer("conf")
        return conf
    except (ImportError, RuntimeError) as error:
        return {"error": str(error)}


def _cache() -> dict[str, Any]:
    from ._bridge.build import cache

    return _folder(cache(), "*")


def _folder(folder: Path, pattern: str) -> dict[str, Any]:
    """A folder's files of this name that are this user's, and how large they are together."""
    sizes = []
    for file in folder.glob(pattern) if folder.is_dir() else []:
        try:
            found = file.lstat()
        except OSError:
            continue  # Removed just now.
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            sizes.append(found.st_size)
    return {"folder": str(folder), "files": len(sizes), "size_bytes": sum(sizes)}


def _version() -> Optional[str]:
    try:
        return metadata.version("vramtape")
    except metadata.PackageNotFoundError:
        return None  # A checkout that is not installed.


def _library_version() -> Optional[str]:
    try:
        return str(_runtime.load().vramtape_version().decode())
    except ImportError:
        return None


def _lab_path() -> Path:
    return Path(os.environ.get("VRAMTAPE_LAB_LIBRARY") or Path(_library.__file__).with_name("libvramtape_lab.so"))


def _lines(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    torch, driver, bridge, settings = (report[part] for part in ("torch", "driver", "bridge", "settings"))
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory_bytes'] / 2**30:.1f} GiB)" for gpu in driver["gpus"])
    simulated = f"simulated ({driver['simulated']}), " if driver["simulated"] else ""
    rows = [
        ("vramtape", f"{report['vramtape']['library'] or 'no library'} in {report['vramtape']['path']}"),
        ("python", f"{report['python']['version']} in {report['python']['path']}"),
        ("torch", f"{torch['version']}, CUDA {torch['cuda']}, in {torch['path']}" if torch else "none"),
        ("driver", f"{simulated}CUDA {driver['cuda']}" if driver["cuda"] else "none"),
        ("GPUs", gpus or "none"),
        ("clock", _clock_line(report["clock"])),
        ("route", report["route"]["active"] or "none: vramtape cannot be used here"),
        *(("", why) for why in [report["route"]["why"]] if why),
    ]
    if bridge:
        rows.append(("bridge", bridge["built"] or "not built"))
        rows += [("", problem) for problem in bridge["problems"]]
    rows += [
        ("settings", ", ".join(f"{key}:{value}" for key, value in settings.items() if key not in _VARIABLES)),
        *(("", f"{name}={settings[name]}") for name in _VARIABLES if name in settings),
    ]
    for name in ("rings", "cache"):
        place = report[name]
        size = f"{place['files']} files, {place['size_bytes'] / 2**20:.1f} MiB"
        rows.append((name, f"{place['folder']}: {size}"))
    return [f"{name:<10}{line}" for name, text in rows for name, line in _folded(name, text)]


def _clock_line(clock: dict[str, Any]) -> str:
    if clock["is_counter"]:
        return "time stamp counter"
    source = f"is {clock['source']}" if clock["source"] else "is not known (no /sys is mounted)"
    return f"clock_gettime, which makes a record slower: the kernel's clock source {source}, and not tsc"


def _folded(name: str, text: str) -> list[tuple[str, str]]:
    """The lines of a text, the name before the first."""
    return [(name if at == 0 else "", line) for at, line in enumerate(text.splitlines() or [""])]
