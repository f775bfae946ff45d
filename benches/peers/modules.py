"""The cost of marks of modules, on the simulated driver, where kernels take no time: training at its most expensive.

    python benches/peers/modules.py [--rounds N] [--json]

Each subject is a process of its own; they take turns. `call` is a call of a module that does nothing, `trained` one
that adds, with its part of the backward pass. A step is one of training, with the optimizer's. Exits with 1 where
marks of modules cost more than 12 us for a call: the difference between `modules` and `off`, over the calls.
"""

import argparse
import json
import os
import sys
import time

import turns
from turns import harness

sys.path.insert(0, os.path.join(turns.HERE, "..", "..", "tests", "python", "loop"))

SUBJECTS = {marks: {**harness.PACKAGE, "VRAMTAPE_CONF": f"marks:{marks}"} for marks in ("off", "auto", "modules")}
CALLS = 200
STEPS = 1
LIMIT_US = 12


def child():
    """Answers each line with the microseconds of what it names."""
    import vramtape

    vramtape.install(route="pluggable")
    import torch
    from models import GPT, ResNet

    torch.set_num_threads(1)
    torch.backends.cudnn.enabled = False  # The recorded results are without cuDNN.
    loss_of = torch.nn.CrossEntropyLoss()
    tokens = torch.zeros(1, 128, dtype=torch.long, device="cuda")
    images, labels = torch.randn(2, 3, 32, 32, device="cuda"), torch.zeros(2, dtype=torch.long, device="cuda")
    models = {
        "gpt-2": (GPT(width=768, heads=12, layers=12, words=50257, length=128).cuda(), tokens, tokens.flatten()),
        "resnet": (ResNet(channels=64, blocks=16).cuda(), images, labels),
    }
    optimizers = {name: torch.optim.AdamW(model.parameters()) for name, (model, *_) in models.items()}

    class Plus(torch.nn.Module):
        def forward(self, x):
            return x + 1

    nothing = torch.nn.Identity()
    chain = [Plus() for _ in range(CALLS)]
    number = torch.ones(1, device="cuda", requires_grad=True)

    def call():
        for _ in range(CALLS):
            nothing(number)

    def trained():
        x = number
        for one in chain:
            x = one(x)
        x.backward()

    def train(name):
        model, inputs, targets = models[name]
        loss_of(model(inputs).flatten(0, -2), targets).backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    def measure(what):
        run, count, parts = {"call": (call, 1, CALLS), "trained": (trained, 1, CALLS)}.get(
            what, (lambda: train(what), STEPS, STEPS)
        )
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - start) / parts / 1000

    for what in ("call", "trained", *models):
        measure(what)
    print("ready", flush=True)
    for line in sys.stdin:
        print(measure(line.strip()), flush=True)


def calls_of(kind, **options):
    """How many calls of modules a step has."""
    import torch
    from models import GPT

    count = 0

    def counted(*_):
        nonlocal count
        count += 1

    hook = torch.nn.modules.module.register_module_forward_pre_hook(counted)
    model = kind(**options)
    output = model(torch.zeros(1, 8, dtype=torch.long) if kind is GPT else torch.zeros(1, 3, 8, 8)).flatten(0, -2)
    torch.nn.CrossEntropyLoss()(output, torch.zeros(len(output), dtype=torch.long))
    hook.remove()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child()
    rounds = dict.fromkeys(("call", "trained", "gpt-2", "resnet"), arguments.rounds)
    found = turns.medians(os.path.abspath(__file__), SUBJECTS, rounds)
    from models import GPT, ResNet

    calls = {"call": 1, "trained": 1, "gpt-2": calls_of(GPT, layers=12), "resnet": calls_of(ResNet, blocks=16)}
    rows = {}
    for what, count in calls.items():
        row = {marks: found[marks][what] for marks in SUBJECTS}
        rows[what] = {**row, "calls": count, "us_a_call": (row["modules"] - row["off"]) / count}
    if arguments.json:
        print(json.dumps(rows))
    else:
        print(f"{'us':8} {'off':>10} {'auto':>10} {'modules':>10} {'calls':>6} {'more a call':>12}")
        for what, row in rows.items():
            numbers = " ".join(f"{row[marks]:10.1f}" for marks in SUBJECTS)
            print(f"{what:8} {numbers} {row['calls']:6} {row['us_a_call']:12.2f}")
    return max(row["us_a_call"] for row in rows.values()) > LIMIT_US


if __name__ == "__main__":
    sys.exit(main())
