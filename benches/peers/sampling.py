"""The cost of the sampled stacks of `vramtape run` in a step of a GPT, on the simulated driver.

    python benches/peers/sampling.py [--rounds N] [--every SIZE]

Trains the model of examples/gpt.py in two processes that take turns: one without stacks, one with a stack for so many
bytes. Both write a tape. Kernels do nothing on the simulated driver: a step is host time only, so stacks are a larger
share of it than on a GPU. Times are those of the processor, all threads together, so that other programs of the machine
change less. Prints the medians, and the median over rounds of what sampling adds; exits with 1 above 1 %. Run it on a
quiet machine: on two busy cores the answer varies by 2 % from run to run.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

import turns
from turns import harness

sys.path.insert(0, os.path.join(harness.ROOT, "examples"))
COST_MAX = 0.01
STEPS_A_ROUND = 4


def child(_):
    """Answers each line with the milliseconds of a step."""
    harness.load_simcuda()
    import gpt
    import torch
    import torch.nn.functional as F

    harness.use_vramtape()
    model = gpt.GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    text = torch.zeros(8, 513, dtype=torch.long).random_(16384).cuda()

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(text[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time_ns()
        for _ in range(STEPS_A_ROUND):
            step()
        torch.cuda.synchronize()
        print((time.process_time_ns() - start) / STEPS_A_ROUND / 1e6, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=250)
    parser.add_argument("--every", default="1MiB")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "without stacks": f"tape:{folder}/without.vtape",
            f"stacks_every:{options.every}": f"tape:{folder}/with.vtape,stacks_every:{options.every}",
        }
        subjects = [turns.Subject(__file__, "gpt", {"VRAMTAPE_CONF": conf}) for conf in settings.values()]
        for subject in subjects:
            subject.answer()
        rounds = []
        for number in range(options.rounds):
            # Each goes first as often as the other.
            order = (0, 1) if number % 2 == 0 else (1, 0)
            taken = {at: subjects[at].measure("step") for at in order}
            rounds.append((taken[0], taken[1]))
        for subject in subjects:
            subject.process.stdin.close()
            subject.process.wait()
    for name, times in zip(settings, zip(*rounds)):
        print(f"{name:<24} {statistics.median(times):8.3f} ms a step (least {min(times):.3f})")
    cost = statistics.median(after / before - 1 for before, after in rounds)
    print(f"{'sampling adds':<24} {100 * cost:8.2f} %")
    sys.exit(1 if cost > COST_MAX else 0)


if __name__ == "__main__":
    main()
