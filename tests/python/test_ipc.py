"""CUDA IPC: processes share tensors whichever allocator each has, PyTorch's own or ours, as two of PyTorch's do."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor

from harness import PACKAGE, run_cases, run_child

SMALL = {"VRAMTAPE_SIM_MEMORY": "1GiB", "PYTHONWARNINGS": "ignore"}
# Scripts that also run under PyTorch's own allocator, for comparison.
NATIVE = ("exchange", "ends")
# Compared runs: script, producer, consumer, multiprocessing's method, and our strategy.
ROWS = (
    ("exchange", "bridge", "bridge", "forkserver", "native"),
    ("exchange", "bridge", "native", "spawn", "native"),
    ("exchange", "native", "bridge", "spawn", "native"),
    ("ends", "bridge", "bridge", "spawn", "native"),
    ("exchange", "bridge", "native", "spawn", "stitch"),
    ("ends", "bridge", "bridge", "spawn", "stitch"),
)


def results(script, producer, consumer, method, strategy="native"):
    """The processes' results: the JSON on the last line."""
    ours = {"IPC_TEST_ALLOCATOR": producer, "VRAMTAPE_CONF": f"strategy:{strategy}"}
    said = run_child(f"ipc/{script}.py", consumer, method, **PACKAGE, **SMALL, **ours)
    lines = [line for line in said.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])


def expected_of(native, script, strategy):
    """PyTorch's own results. `stitch` shares mapped pages, whatever the setting of expandable segments."""
    if (script, strategy) != ("exchange", "stitch"):
        return native[script]
    return native[script] | {"expandable False": native[script]["expandable True"]}


def compare(expected, found, strategy):
    if strategy == "stitch":  # The number of pages in a share, and their distance, are its own.
        for part in (part for results in (expected, found) for name, part in results.items() if "expandable" in name):
            part.update({"shared": part["shared"][:3], "together": True})
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            raise AssertionError(f"{name}: PyTorch's own says {expected.get(name)}, here it is {found.get(name)}")


def case(native, script, *rest):
    strategy = rest[-1]
    compare(expected_of(copy.deepcopy(native), script, strategy), results(script, *rest), strategy)


def main():
    run_child("bridge/builds.py", **PACKAGE)  # Builds it once, before processes that would wait for it.
    with ThreadPoolExecutor(2) as pool:
        native = dict(zip(NATIVE, pool.map(lambda script: results(script, "native", "native", "spawn"), NATIVE)))
    run_cases([(f"ipc.{'-'.join(row)}", lambda row=row: case(native, *row)) for row in ROWS])


if __name__ == "__main__":
    main()
