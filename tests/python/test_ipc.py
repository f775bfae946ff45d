"""CUDA IPC: processes share tensors whichever allocator each has, PyTorch's own or ours, as two of PyTorch's do."""

import json
from concurrent.futures import ThreadPoolExecutor

from harness import PACKAGE, run_cases, run_child

SMALL = {"VRAMTAPE_SIM_MEMORY": "1GiB", "PYTHONWARNINGS": "ignore"}
# Scripts that also run under PyTorch's own allocator, for comparison.
NATIVE = ("exchange", "ends")
# Compared runs: script, producer, consumer, multiprocessing's method.
ROWS = (
    ("exchange", "bridge", "bridge", "forkserver"),
    ("exchange", "bridge", "native", "spawn"),
    ("exchange", "native", "bridge", "spawn"),
    ("ends", "bridge", "bridge", "spawn"),
)


def results(script, producer, *arguments):
    """The processes' results: the JSON on the last line."""
    said = run_child(f"ipc/{script}.py", *arguments, **PACKAGE, **SMALL, IPC_TEST_ALLOCATOR=producer)
    lines = [line for line in said.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])


def compare(expected, found):
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            raise AssertionError(f"{name}: PyTorch's own says {expected.get(name)}, here it is {found.get(name)}")


def main():
    run_child("bridge/builds.py", **PACKAGE)  # Builds it once, before processes that would wait for it.
    with ThreadPoolExecutor(2) as pool:
        native = dict(zip(NATIVE, pool.map(lambda script: results(script, "native", "native", "spawn"), NATIVE)))
    run_cases([(f"ipc.{'-'.join(row)}", lambda row=row: compare(native[row[0]], results(*row))) for row in ROWS])


if __name__ == "__main__":
    main()
