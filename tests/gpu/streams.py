"""Memory used on other streams: record_stream under load, with poison in everything that is allocated meanwhile.

A block that is used again too early has the poison where its reader expects the value that was written.
"""

import random

import torch

POISON = float("nan")


def run(simulated):
    dice = random.Random(7)
    rounds, elements_max = (50, 1 << 16) if simulated else (2000, 1 << 22)
    sides = [torch.cuda.Stream() for _ in range(4)]
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    held, checked = [], 0
    for number in range(rounds):
        side = dice.choice(sides)
        value = float(number % 1000)
        data = torch.full((dice.randrange(1, elements_max),), value, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            if not simulated:
                torch.cuda._sleep(dice.randrange(10_000, 400_000))  # Cycles: the reader is late.
            bad = (data != value).sum()
        data.record_stream(side)
        held.append((side, bad))
        checked += data.numel()
        del data  # Its reader may not have begun.
        poison = [torch.full((dice.randrange(1, elements_max),), POISON, device="cuda") for _ in range(3)]
        del poison
        if len(held) > 32:
            side, bad = held.pop(0)
            torch.cuda.current_stream().wait_stream(side)
            bad.record_stream(torch.cuda.current_stream())
            wrong += bad
    torch.cuda.synchronize()
    wrong += sum(bad for _, bad in held)
    found = int(wrong)
    if found:
        raise AssertionError(f"{found} of {checked} elements were overwritten before their reader was done")
    return {"rounds": rounds, "elements": checked, "retries": torch.cuda.memory_stats()["num_alloc_retries"]}
