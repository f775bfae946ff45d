"""The cost of Python stacks: PyTorch's own history and vramtape in one run, on the simulated driver.

    python benches/peers/stacks.py [--rounds N] [--json]

`cargo xtask bench --stacks` runs it. Each subject is a process of its own, nothing set in its environment but what the
subject is; they take turns. An operation is `torch.empty` and the free of what it made, at a depth of 20 frames: with
stacks on, both have one. Exits with 1 where a stack costs more than a microsecond, or more than PyTorch's.
"""

import argparse
import json
import sys
import threading
import time

import turns
from turns import harness

DEPTH = 20
SUBJECTS = {
    "pytorch": {},
    "pytorch, stacks": {},
    "vramtape": {},
    "vramtape, stacks:alloc": {"VRAMTAPE_CONF": "stacks:alloc"},
    "vramtape, stacks:all": {"VRAMTAPE_CONF": "stacks:all"},
}
# Operations a round: few enough to end before the system interrupts most of them.
QUIET = 2000
# With a busy thread a round has a time: on a machine with a core to spare that thread takes the interpreter's lock at
# every operation that lets go of it, and keeps it for 5 ms.
BUSY_NS = 300_000_000


def child(subject):
    """Answers each line `quiet` or `busy` with the nanoseconds of an operation."""
    harness.load_simcuda()
    import torch

    if subject.startswith("vramtape"):
        harness.use_vramtape()
    elif "stacks" in subject:
        torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=100_000)

    def operations(count):
        empty = torch.empty
        start = time.perf_counter_ns()
        for _ in range(count):
            empty(512, device="cuda")
        return (time.perf_counter_ns() - start) / count

    def operations_for(time_ns):
        empty = torch.empty
        count, start = 0, time.perf_counter_ns()
        while (taken := time.perf_counter_ns() - start) < time_ns:
            for _ in range(10):
                empty(512, device="cuda")
            count += 10
        return taken / count

    def at_depth(depth, measured, amount):
        return measured(amount) if depth <= 2 else at_depth(depth - 1, measured, amount)

    def busy(stop):
        number = 0
        while not stop:
            number += 1

    # `at_depth` and `operations`, below the module and this function.
    at_depth(DEPTH - 2, operations, QUIET)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "quiet":
            print(at_depth(DEPTH - 2, operations, QUIET), flush=True)
            continue
        stop = []
        thread = threading.Thread(target=busy, args=(stop,))
        thread.start()
        print(at_depth(DEPTH - 2, operations_for, BUSY_NS), flush=True)
        stop.append(True)
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    rounds = {"quiet": options.rounds, "busy": max(5, options.rounds // 3)}
    times = turns.medians(__file__, SUBJECTS, rounds)

    def cost(name, base, how, stacks):
        return (times[name][how] - times[base][how]) / stacks

    costs = {
        how: {
            "pytorch": cost("pytorch, stacks", "pytorch", how, 2),
            "vramtape, stacks:alloc": cost("vramtape, stacks:alloc", "vramtape", how, 1),
            "vramtape, stacks:all": cost("vramtape, stacks:all", "vramtape", how, 2),
        }
        for how in ("quiet", "busy")
    }
    if options.json:
        measured = {"depth": DEPTH, "rounds": options.rounds, "operation_ns": times, "stack_ns": costs}
        print(json.dumps(measured, indent=2))
    else:
        print(f"ns, medians of {options.rounds} rounds ({rounds['busy']} with a busy Python thread)\n")
        print(f"{'operation: torch.empty and its free':<40}{'quiet':>12}{'busy thread':>14}")
        for name, ns in times.items():
            print(f"{name:<40}{ns['quiet']:>12,.0f}{ns['busy']:>14,.0f}")
        print(f"\n{'one stack, depth 20':<40}")
        for name in costs["quiet"]:
            print(f"{name:<40}{costs['quiet'][name]:>12,.0f}{costs['busy'][name]:>14,.0f}")
    failures = []
    if costs["quiet"]["vramtape, stacks:all"] > 1000:
        failures.append("a stack costs more than a microsecond")
    for how in times["pytorch"]:
        if times["vramtape, stacks:all"][how] > times["pytorch, stacks"][how]:
            failures.append(f"{how}: an operation with stacks takes longer than PyTorch's")
    for failure in failures:
        print(f"FAIL {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
