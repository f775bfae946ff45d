"""The steps that the programs of the gallery share: plain PyTorch in bfloat16, with AdamW."""

import argparse

import torch


def arguments(batch, **more):
    """The size of a batch, the number of steps, and whatever else a program has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--checkpoint", choices=["on", "off"], default="off", help="compute activations again")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


def train(model, batch, loss, steps):
    """Trains a model on batches that `batch` makes; `loss` is a function of the model and a batch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(model, batch())
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {value.item():.3f}", flush=True)
