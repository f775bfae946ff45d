"""`vramtape.install()` in a real PyTorch: it is the allocator, or says why not and what to do."""

import os

from harness import LIBRARY, ROOT, SIMCUDA, run_cases, run_child

SETTINGS = {"PYTHONPATH": os.path.join(ROOT, "python"), "VRAMTAPE_LIBRARY": LIBRARY, "VRAMTAPE_SIMCUDA": SIMCUDA}
CASES = (
    "importing_starts_nothing",
    "installs",
    "auto_says_what_it_took",
    "too_late",
    "another_allocator",
    "no_gpu",
    "no_driver",
    "old_torch",
    "torch_without_cuda",
    "no_torch",
    "no_such_route",
    "forked",
    "no_library",
)


def case(name):
    return (f"install.{name}", lambda: run_child("install/cases.py", name, **SETTINGS) and None)


run_cases([case(name) for name in CASES])
