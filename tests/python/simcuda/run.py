#!/usr/bin/env python3
"""Runs real PyTorch on simcuda: VENV/bin/python run.py SIMCUDA_FOLDER [NAME ...]

Each test is a program of its own, because simcuda and torch are set up once per process. Prints one line per test; the exit
status says whether all passed.
"""

import os
import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
TWO = {"VRAMTAPE_SIM_DEVICES": "2", "VRAMTAPE_SIM_MEMORY": "1GiB"}
LAG = {"VRAMTAPE_SIM_EVENT_LAG": "5"}
SMALL = {"VRAMTAPE_SIM_MEMORY": "256MiB"}
TESTS = [
    ("driver", {}),
    ("layouts", {}),
    ("training", {}),
    ("training", EXPANDABLE),
    ("streams", LAG),
    ("streams", LAG | EXPANDABLE),
    ("graphs", {}),
    ("graphs", EXPANDABLE),
    ("memory", SMALL),
    ("memory", SMALL | EXPANDABLE),
    ("devices", TWO),
    ("devices", TWO | EXPANDABLE),
    ("refusals", {}),
]
TIMEOUT_S = 300
# Settings of the caller must not reach the tests.
OURS = ("VRAMTAPE_", "PYTORCH_", "LD_PRELOAD", "CUDA_")


def run(name, settings, folder):
    """Whether the test passed, its output, its time."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    environment |= settings | {"SIMCUDA": folder}
    start = time.monotonic()
    try:
        command = [sys.executable, str(HERE / f"{name}.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False, f"no end after {TIMEOUT_S} s", TIMEOUT_S
    return done.returncode == 0, done.stdout + done.stderr, time.monotonic() - start


def main(folder, names):
    folder = os.path.abspath(folder)
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        sys.exit(f"{folder}: no libcuda.so.1 there; see simcuda/README.md")
    unknown = set(names) - {name for name, _ in TESTS}
    if unknown:
        sys.exit(f"no such test: {', '.join(sorted(unknown))}")
    tests = [(name, settings) for name, settings in TESTS if not names or name in names]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda test: run(*test, folder), tests)
        for (name, settings), (passed, output, seconds) in zip(tests, results):
            label = " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
            print(f"{'ok' if passed else 'FAILED':6} {label} ({seconds:.1f} s)", flush=True)
            if not passed or output.startswith("skipped"):
                print(output, flush=True)
            failed += not passed
    sys.exit(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
