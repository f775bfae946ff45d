"""A new user's training script, which does not know vramtape. Texts differ in length from step to step."""

import argparse
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A perceptron of two layers around a residual."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def train_step(model, optimizer, batch, length):
    """One step of training."""
    tokens = torch.zeros(batch, length, dtype=torch.long, device="cuda")
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    """Trains for some steps; with --halve, out of memory halves the batch and the step is tried again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--halve", action="store_true")
    parser.add_argument("--seconds", type=float, default=0, help="go on for so long")
    options = parser.parse_args()
    width, vocabulary = 512, 8192
    layers = [nn.Embedding(vocabulary, width), *(Block(width) for _ in range(4)), nn.Linear(width, vocabulary)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch, step, started = options.batch, 0, time.monotonic()
    while step < options.steps or time.monotonic() - started < options.seconds:
        try:
            train_step(model, optimizer, batch, (256, 768, 512, 1024)[step % 4])
        except torch.OutOfMemoryError:
            if not options.halve or batch == 1:
                raise
            batch //= 2
            optimizer.zero_grad(set_to_none=True)
            print(f"out of memory in step {step}: going on with a batch of {batch}", flush=True)
            continue
        step += 1
        if step == 1:
            print("the first step is done", flush=True)
    print(f"trained for {step} steps", file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
