"""An out of memory explains itself: the lines in the exception, and the files that `oom_dir` has written."""

import os
import tempfile

from harness import PACKAGE, run_cases, run_served

SMALL = {"VRAMTAPE_SIM_MEMORY": "1GiB"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def lines(route, **settings):
    def run():
        run_served("oom/lines.py", route, **PACKAGE, **SMALL, **settings)

    return (" ".join(["oom.lines", route, *settings.values()]), run)


def full_ring(name, **settings):
    """No limit of time is asserted: the machine may be busy."""
    return (f"oom.full_ring {name}", lambda: f"({run_served('oom/full_ring.py', **SMALL, **settings).strip()})")


def saved(route, how):
    def run():
        with tempfile.TemporaryDirectory() as folder:
            where = os.path.join("/proc/nowhere" if how == "broken" else folder, "ooms", "new")
            said = run_served("oom/saved.py", route, how, where, **PACKAGE, **SMALL)
        assert said.count("the out of memory is not saved") == (how == "broken"), said
        # At the end of a process without a tape of its own, the line about it names the saved one.
        is_saved = route != "pytorch" and how != "broken"
        assert said.count(".vtape has the first out of memory; the ring was") == is_saved, said

    return (f"oom.saved {route} {how}", run)


run_cases(
    [
        saved("pluggable", "conf"),
        saved("bridge", "conf"),
        saved("observe", "conf"),
        saved("bridge", "monitor"),
        saved("pytorch", "monitor"),
        saved("pluggable", "broken"),
        lines("pluggable"),
        lines("pluggable", VRAMTAPE_CONF="stacks:alloc"),
        lines("bridge", VRAMTAPE_CONF="stacks:alloc"),
        full_ring("segments"),
        full_ring("expandable", VRAMTAPE_CONF="stacks:alloc", **EXPANDABLE),
    ]
)
