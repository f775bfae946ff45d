"""Shared by the scripts that need a real PyTorch: the simulated driver, the allocator, and a way to run children.

`cargo xtask test` sets VRAMTAPE_LIBRARY, VRAMTAPE_LAB_LIBRARY, VRAMTAPE_SIMCUDA and VRAMTAPE_COMMAND; by hand, what
`cargo build --release` left in target/release is taken.
"""

import ctypes
import os
import runpy
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT = os.path.join(ROOT, "target", "release")
LIBRARY = os.environ.get("VRAMTAPE_LIBRARY", os.path.join(BUILT, "libvramtape.so"))
SIMCUDA = os.environ.get("VRAMTAPE_SIMCUDA", os.path.join(BUILT, "simcuda"))
SIMCUDA_NAMES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")  # PyTorch and cudarc look for all three.
COMMAND = os.environ.get("VRAMTAPE_COMMAND", os.path.join(BUILT, "vramtape"))
LAB_LIBRARY = os.environ.get("VRAMTAPE_LAB_LIBRARY", os.path.join(BUILT, "libvramtape_lab.so"))
# The environment of a child that imports the Python package from this checkout.
PACKAGE = {
    "PYTHONPATH": os.path.join(ROOT, "python"),
    "VRAMTAPE_LIBRARY": LIBRARY,
    "VRAMTAPE_LAB_LIBRARY": LAB_LIBRARY,
    "VRAMTAPE_SIMCUDA": SIMCUDA,
}


def load_simcuda():
    """Puts the simulated driver where PyTorch will find it, and returns what it loaded. Comes before `import torch`.

    The process ends without an abort of PyTorch's, also where a script does not use the package, which sees to it.
    """
    assert "torch" not in sys.modules, "the simulated driver has to be loaded before torch"
    libraries = [ctypes.CDLL(os.path.join(SIMCUDA, name), mode=ctypes.RTLD_GLOBAL) for name in SIMCUDA_NAMES]
    runpy.run_path(os.path.join(ROOT, "python", "vramtape", "_autograd_shutdown.py"))["watch"]()
    return libraries


def use_vramtape():
    """Makes vramtape PyTorch's allocator by the two functions of PyTorch's documentation, and nothing else."""
    import torch

    allocator = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "vramtape_malloc", "vramtape_free")
    torch.cuda.memory.change_current_allocator(allocator)
    return allocator


def clean_environment(**settings):
    """This process's environment without what would steer an allocator or the simulated driver, plus `settings`."""
    steering = ("VRAMTAPE_CONF", "VRAMTAPE_SIM_", "PYTORCH_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    return {**environment, **settings}


def run_child(script, *arguments, timeout=300, **settings):
    """Runs a Python script beside this one in a clean environment; its output is shown only if it fails."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
    return run_python(script, *arguments, timeout=timeout, **settings)


def run_python(*arguments, timeout=300, **settings):
    """Runs this Python with these arguments in a clean environment; its output is shown only if it fails."""
    child = subprocess.run(
        [sys.executable, *arguments],
        env=clean_environment(**settings),
        timeout=timeout,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if child.returncode != 0:
        command = " ".join([os.path.basename(arguments[0]), *arguments[1:]])
        raise AssertionError(f"{command} ended with {child.returncode}:\n{child.stdout}")
    return child.stdout


def run_cases(cases):
    """Runs (name, function) pairs, a few at a time, for each is a child process or two. Prints one PASS or FAIL line
    for each, in order, and exits with 1 if one failed.
    """
    failed = 0
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for name, result in [(name, pool.submit(run_case, case)) for name, case in cases]:
            seconds, note, error = result.result()
            failed += error is not None
            line = f"PASS {name} {seconds:.1f} s {note}" if error is None else f"FAIL {name}: {error}"
            print(line.rstrip(), flush=True)
    sys.exit(1 if failed else 0)


def run_case(case):
    """Runs one case: how long it took, what it has to say and what went wrong, if anything."""
    start = time.monotonic()
    try:
        note, error = case() or "", None
        if note.startswith("skipped") and os.environ.get("CI") == "true":
            raise AssertionError(f"in CI a skipped check is a failure; {note}")
    except Exception as found:  # A case reports; the others still run.
        note, error = "", found
    return time.monotonic() - start, note, error
