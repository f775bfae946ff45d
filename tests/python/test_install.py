"""`vramtape.install()` in a real PyTorch: it is the allocator, or says why not and what to do."""

import os

from harness import COMMAND, LAB_LIBRARY, LIBRARY, ROOT, SIMCUDA, run_cases, run_child

SETTINGS = {
    "PYTHONPATH": os.path.join(ROOT, "python"),
    "VRAMTAPE_LIBRARY": LIBRARY,
    "VRAMTAPE_LAB_LIBRARY": LAB_LIBRARY,
    "VRAMTAPE_SIMCUDA": SIMCUDA,
    "VRAMTAPE_COMMAND": COMMAND,
}
CASES = (
    "importing_starts_nothing",
    "installs",
    "auto_says_what_it_took",
    "writes_the_tape_that_is_asked_for",
    "observes_onto_the_tape_that_is_asked_for",
    "observes_without_a_tracker",
    "a_tape_that_is_there_stays",
    "other_settings_come_too_late",
    "settings_are_refused",
    "without_a_tape_the_ring_is_recovered",
    "without_a_ring_file_the_line_says_so",
    "under_the_launcher_the_settings_are_its_own",
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
