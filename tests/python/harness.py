"""What the scripts that need a real PyTorch share: the simulated driver, the allocator, and a way to run children.

`cargo xtask test` sets VRAMTAPE_LIBRARY, VRAMTAPE_SIMCUDA and VRAMTAPE_COMMAND; by hand, what `cargo build --release`
left in target/release is taken.
"""

import ctypes
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT = os.path.join(ROOT, "target", "release")
LIBRARY = os.environ.get("VRAMTAPE_LIBRARY", os.path.join(BUILT, "libvramtape.so"))
SIMCUDA = os.environ.get("VRAMTAPE_SIMCUDA", os.path.join(BUILT, "simcuda"))
COMMAND = os.environ.get("VRAMTAPE_COMMAND", os.path.join(BUILT, "vramtape"))


def load_simcuda():
    """Puts the simulated driver where PyTorch will find it. Has to come before `import torch`."""
    assert "torch" not in sys.modules, "the simulated driver has to be loaded before torch"
    for name in ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"):  # PyTorch and cudarc look for all three.
        ctypes.CDLL(os.path.join(SIMCUDA, name), mode=ctypes.RTLD_GLOBAL)


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
    child = subprocess.run(
        [sys.executable, script, *arguments],
        env=clean_environment(**settings),
        timeout=timeout,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if child.returncode != 0:
        command = " ".join([os.path.basename(script), *arguments])
        raise AssertionError(f"{command} ended with {child.returncode}:\n{child.stdout}")
    return child.stdout


def run_cases(cases):
    """Runs (name, function) pairs; prints one PASS or FAIL line for each and exits with 1 if one failed."""
    failed = 0
    for name, case in cases:
        start = time.monotonic()
        try:
            note = case() or ""
        except Exception as error:  # A case reports; the next one still runs.
            failed += 1
            print(f"FAIL {name}: {error}", flush=True)
        else:
            print(f"PASS {name} {time.monotonic() - start:.1f} s {note}".rstrip(), flush=True)
    sys.exit(1 if failed else 0)
