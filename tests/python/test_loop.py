"""Monitor, profile and marks in a training loop, under our allocator and under PyTorch's own."""

import re

from harness import PACKAGE, run_cases, run_child

CASES = {
    "monitor": ("monitor.py", ["pluggable"], {}),
    "monitor_without_us": ("monitor.py", ["native"], {}),
    "profile": ("profiled.py", [], {"VRAMTAPE_SIM_DEVICES": "2"}),
    "profile_of_more_than_the_ring_holds": ("lapped.py", [], {"VRAMTAPE_CONF": "ring_events:1024"}),
    "marks": ("marks.py", [], {}),
    "steps_that_the_program_counts": ("marks.py", ["counted"], {}),
    "marks_off": ("marks.py", ["off"], {"VRAMTAPE_CONF": "marks:off"}),
    "modules": ("modules.py", [], {"VRAMTAPE_CONF": "marks:modules"}),
    "modules_that_are_compiled": ("modules_compiled.py", [], {"VRAMTAPE_CONF": "marks:modules"}),
}


def case(script, arguments, settings):
    return lambda: run_child(f"loop/{script}", *arguments, **PACKAGE, **settings) and None


def modules_change_no_number():
    """Losses, gradients and allocations are the same to the last bit, with marks of modules and without any."""

    def lines(marks):
        output = run_child("loop/modules_equal.py", **PACKAGE, VRAMTAPE_CONF=f"marks:{marks}")
        return [line for line in output.splitlines() if re.match("(gpt|checkpointed|resnet)", line)]

    unmarked = lines("off")
    assert len(unmarked) == 20 and lines("modules") == unmarked
    return f"{len(unmarked)} lines"


cases = [(f"loop.{name}", case(*CASES[name])) for name in CASES]
run_cases([*cases, ("loop.modules_change_no_number", modules_change_no_number)])
