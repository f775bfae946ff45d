"""The cost of an allocation in a program: `torch.empty` and its free in Python, and a step of training.

    python benches/peers/empty.py [--rounds N] [--json]

`cargo xtask bench --python` runs it. PyTorch's own allocator, without and with its history, beside vramtape under both
its routes as it is installed by default, its ring on; on the simulated driver, which executes nothing, so that a
step is all Python and PyTorch: what an allocator and its hooks can cost at worst. Each subject is a process of its own;
they take turns. Exits with 1 where a pair under the bridge takes more than 1.02 times PyTorch's without history.
"""

import argparse
import json
import os
import sys
import time

import turns
from turns import harness

RATIO_MAX = 1.02
SUBJECTS = {
    "pytorch": {},
    "pytorch, history": {},
    "vramtape, bridge": harness.PACKAGE,
    "vramtape, bridge, marks:off": {**harness.PACKAGE, "VRAMTAPE_CONF": "marks:off"},
    "vramtape, pluggable": harness.PACKAGE,
}
# The measured operations, and their count in a turn: long enough to be timed, short enough to meet few interruptions.
PAIRS = {"512 B": (512, 20_000), "4 MiB": (4 << 20, 20_000)}
STEP, STEPS = "step", 20


def child(subject):
    """Answers each line with the nanoseconds of what it names."""
    if subject.startswith("vramtape"):
        import vramtape

        vramtape.install(route=subject.split(", ")[1])
    else:
        harness.load_simcuda()
    import torch

    if subject.endswith("history"):
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=100_000)
    step = training()

    def pairs(size_bytes, count):
        empty, dtype = torch.empty, torch.uint8
        start = time.perf_counter_ns()
        for _ in range(count):
            empty(size_bytes, dtype=dtype, device="cuda")
        return (time.perf_counter_ns() - start) / count

    def steps():
        start = time.perf_counter_ns()
        for _ in range(STEPS):
            step()
        return (time.perf_counter_ns() - start) / STEPS

    def measure(what):
        return steps() if what == STEP else pairs(*PAIRS[what])

    for what in (*PAIRS, STEP):
        measure(what)
    print("ready", flush=True)
    for line in sys.stdin:
        print(measure(line.strip()), flush=True)


def training():
    """A step of a small network: 16 layers, forward, backward and Adam."""
    import torch

    layers = [torch.nn.Linear(64, 64, device="cuda") for _ in range(16)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    batch = torch.empty(32, 64, device="cuda")

    def step():
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    times = turns.medians(os.path.abspath(__file__), SUBJECTS, dict.fromkeys((*PAIRS, STEP), options.rounds))
    ratios = {name: {what: ns / times["pytorch"][what] for what, ns in taken.items()} for name, taken in times.items()}
    if options.json:
        print(json.dumps({"rounds": options.rounds, "ns": times, "ratios": ratios}, indent=2))
    else:
        print(f"ns, medians of {options.rounds} turns, and the ratio to PyTorch's own allocator\n")
        print(f"{'':<30}" + "".join(f"{what:>20}" for what in times["pytorch"]))
        for name, taken in times.items():
            cells = (f"{ns:>12,.0f} {ratios[name][what]:>7.3f}" for what, ns in taken.items())
            print(f"{name:<30}" + "".join(cells))
    slow = [what for what in PAIRS if ratios["vramtape, bridge"][what] > RATIO_MAX]
    for what in slow:
        print(f"FAIL {what}: more than {RATIO_MAX} times PyTorch's own", file=sys.stderr)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
