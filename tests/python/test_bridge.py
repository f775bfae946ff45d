"""The bridge: the same scenarios under PyTorch's own allocator and under ours say the same of all in torch.cuda."""

import json
import os

from harness import LIBRARY, ROOT, SIMCUDA, run_cases, run_child, run_served

PACKAGE = {"PYTHONPATH": os.path.join(ROOT, "python"), "VRAMTAPE_LIBRARY": LIBRARY, "VRAMTAPE_SIMCUDA": SIMCUDA}
# Functions of bridge/scenarios.py that return what PyTorch says; those of one row in one process, which costs less.
SCENARIOS = (
    ({}, "statistics", "snapshot", "pools", "pool_with_allocator", "settings", "uncached", "profiler", "errors"),
    ({}, "history", "history state", "stacks_of_segments", "annotations"),
    ({}, "graphs", "checkpoint", "live_allocations"),
    ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "snapshot", "history", "checkpoint"),
    ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "uncached env"),
    ({"VRAMTAPE_SIM_MEMORY": "1GiB"}, "out_of_memory", "fraction", "rejections"),
    ({"VRAMTAPE_SIM_MEMORY": "1GiB", "VRAMTAPE_SIM_NEIGHBOUR": "4242:100MiB"}, "out_of_memory"),
    ({"VRAMTAPE_SIM_EVENT_LAG": "3"}, "streams"),
    ({"TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0"}, "unshared"),
    ({"VRAMTAPE_SIM_DEVICES": "3", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "peers"),
    ({"VRAMTAPE_SIM_DEVICES": "2"}, "latched", "two_devices", "annotated"),
)


# The same under route 1, which has no process with these settings elsewhere.
PLUGGABLE_SCENARIOS = (({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "uncached env"),)


def results(allocator, scenarios, settings):
    """The scenarios' results under the allocator: the last JSON, after which PyTorch may warn of shared memory."""
    said = run_served("bridge/scenarios.py", allocator, *scenarios, **PACKAGE, **settings)
    return json.loads([line for line in said.splitlines() if line.startswith("{")][-1])


def compare(route, scenarios, settings):
    native, ours = results("native", scenarios, settings), results(route, scenarios, settings)
    for scenario in scenarios:
        for name in {**native[scenario], **ours[scenario]}:
            there, here = native[scenario].get(name), ours[scenario].get(name)
            if there != here:
                raise AssertionError(f"{scenario}, {name}: PyTorch's own says {there}, the {route} {here}"[:2000])


def case(settings, *scenarios, route="bridge"):
    name = ", ".join([*scenarios, *map("=".join, settings.items())])
    return (f"{route}.{name}", lambda: compare(route, scenarios, settings) and None)


def alone(script):
    return (f"bridge.{script}", lambda: run_child(f"bridge/{script}.py", **PACKAGE) and None)


if __name__ == "__main__":
    run_child("bridge/builds.py", **PACKAGE)  # Builds it once, before processes that would wait for it.
    pluggable = [case(*row, route="pluggable") for row in PLUGGABLE_SCENARIOS]
    run_cases([*[case(*row) for row in SCENARIOS], *pluggable, alone("builds"), alone("forks")])
