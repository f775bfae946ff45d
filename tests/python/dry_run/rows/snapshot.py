"""One step of a language model of 423 million parameters, and the allocations in it.

The published program is `memory_profile` of `cs336_systems/nsys_profile.py` of Wedsonlin/assignment2-systems, which
wrote `results/medium_*_memory_snapshot.pickle`. Arguments: tokens, `training` or `inference`, `fp32` or `bf16`.
"""

import hashlib

import torch
from figures import arguments, figure
from language_model import AdamW, LanguageModel, cross_entropy

WORDS = 10_000
BATCH = 4
WARM_UPS = 5


def batches(count):
    return torch.randint(0, WORDS, (count, BATCH, tokens), device="cuda")


def autocast():
    return torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16")


def start_recording():
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)


def infer():
    model.eval()
    inputs, input = batches(WARM_UPS), batches(1)
    with torch.inference_mode():
        for warm in inputs:
            with autocast():
                model(warm)
        start_recording()
        with autocast():
            model(input[0])
            print_recorded()


def train(optimizer):
    model.train()
    inputs, input, targets, target = (batches(count) for count in (WARM_UPS, 1, WARM_UPS, 1))
    for warm, goal in zip(inputs, targets):
        with autocast():
            output = model(warm)
            loss = cross_entropy(output, goal)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del output, loss
    start_recording()
    with autocast():
        output = model(input[0])
        loss = cross_entropy(output, target[0])
    loss.backward()
    optimizer.step()
    print_recorded()


def print_recorded():
    """The memory of the recorded step, and a digest of the sizes of its allocations and frees, in their order."""
    torch.cuda.synchronize()
    figure("allocated_after_step", torch.cuda.memory_allocated())
    figure("peak_allocated_in_step", torch.cuda.max_memory_allocated())
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    events = [(entry["action"], entry["size"]) for entry in trace if entry["action"] in ("alloc", "free_completed")]
    digest = hashlib.sha256(" ".join(f"{action}:{size}" for action, size in events).encode()).hexdigest()
    figure("allocations_and_frees", f"{len(events)}:{digest[:16]}")


tokens, kind, precision = arguments(int, str, str)
model = LanguageModel(words=WORDS, tokens=tokens, width=1024, layers=24, heads=16, inner=4096)
model.to("cuda")
optimizer = AdamW(model.parameters())
train(optimizer) if kind == "training" else infer()
