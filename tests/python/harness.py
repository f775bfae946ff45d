"""Shared by the scripts that need a real PyTorch: the simulated driver, the allocator, and a way to run children.

`cargo xtask test` sets VRAMTAPE_LIBRARY, VRAMTAPE_LAB_LIBRARY, VRAMTAPE_SIMCUDA and VRAMTAPE_COMMAND; by hand, what
`cargo build --release` left in target/release is taken.
"""

import ctypes
import json
import os
import queue
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
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

# What `load_simcuda` loaded, here or in the server that this process is a fork of.
_LOADED = []


def load_simcuda():
    """Puts the simulated driver where PyTorch will find it, and returns what it loaded. Comes before `import torch`.

    The process ends without an abort of PyTorch's, also where a script does not use the package, which sees to it.
    """
    if _LOADED:
        return _LOADED
    assert "torch" not in sys.modules, "the simulated driver has to be loaded before torch"
    _LOADED.extend(ctypes.CDLL(os.path.join(SIMCUDA, name), mode=ctypes.RTLD_GLOBAL) for name in SIMCUDA_NAMES)
    runpy.run_path(os.path.join(ROOT, "python", "vramtape", "_autograd_shutdown.py"))["watch"]()
    return _LOADED


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
    return run_python(os.path.join(HERE, script), *arguments, timeout=timeout, **settings)


class Server:
    """A process that runs scripts in forks of itself (`serve.py`), one at a time."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "serve.py")],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, job, timeout):
        """The exit code of a script. The server of one that takes too long is killed with it."""
        killer = threading.Timer(timeout, os.killpg, (self.process.pid, signal.SIGKILL))
        killer.start()
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return int(self.process.stdout.readline() or self.process.wait())
        finally:
            killer.cancel()


_IDLE_SERVERS = queue.SimpleQueue()


def run_served(script, *arguments, timeout=300, **settings):
    """The same for a script that starts with `load_simcuda`, in a fork of a process that has imported torch: most of
    the time of a short script. Settings that torch reads when it is imported need a process of their own.
    """
    if any(name.startswith(("PYTORCH_", "TORCH_")) for name in settings):
        return run_child(script, *arguments, timeout=timeout, **settings)
    try:
        server = _IDLE_SERVERS.get_nowait()
    except queue.Empty:
        server = Server()
    with tempfile.NamedTemporaryFile("r", errors="replace") as output:
        job = {
            "script": os.path.join(HERE, script),
            "arguments": list(map(os.fspath, arguments)),
            "environment": clean_environment(**settings),
            "output": output.name,
        }
        code = server.run(job, timeout)
        if server.process.poll() is None:
            _IDLE_SERVERS.put(server)
        text = output.read()
    check(code, [script, *arguments], text)
    return text


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
    check(child.returncode, arguments, child.stdout)
    return child.stdout


def check(code, arguments, output):
    """Fails with its output where a script ended with another code than 0."""
    if code != 0:
        command = " ".join([os.path.basename(arguments[0]), *map(str, arguments[1:])])
        raise AssertionError(f"{command} ended with {code}:\n{output}")


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
