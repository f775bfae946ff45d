"""Monitor, profile and marks in a training loop, under our allocator and under PyTorch's own."""

from harness import PACKAGE, run_cases, run_child

CASES = {
    "monitor": ("monitor.py", ["pluggable"], {}),
    "monitor_without_us": ("monitor.py", ["native"], {}),
    "profile": ("profiled.py", [], {"VRAMTAPE_SIM_DEVICES": "2"}),
    "profile_of_more_than_the_ring_holds": ("lapped.py", [], {"VRAMTAPE_CONF": "ring_events:1024"}),
    "marks": ("marks.py", [], {}),
    "steps_that_the_program_counts": ("marks.py", ["counted"], {}),
    "marks_off": ("marks.py", ["off"], {"VRAMTAPE_CONF": "marks:off"}),
}


def case(script, arguments, settings):
    return lambda: run_child(f"loop/{script}", *arguments, **PACKAGE, **settings) and None


run_cases([(f"loop.{name}", case(*CASES[name])) for name in CASES])
