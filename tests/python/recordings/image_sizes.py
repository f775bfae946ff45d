"""Training on images of many sizes, as detectors do: each batch has the size of its largest image."""

import os
import random

import torch
from torch import nn

random.seed(0)
BATCH = int(os.environ.get("BATCH", 8))


def stage(inner, outer):
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, 2, 1), nn.GroupNorm(8, outer), nn.ReLU(),
        nn.Conv2d(outer, outer, 3, 1, 1), nn.GroupNorm(8, outer), nn.ReLU(),
    )  # fmt: skip


stages = nn.ModuleList([stage(3, 64), stage(64, 128), stage(128, 256), stage(256, 512)]).cuda()
heads = nn.ModuleList([nn.Conv2d(width, 64, 1) for width in (64, 128, 256, 512)]).cuda()
optimizer = torch.optim.SGD([*stages.parameters(), *heads.parameters()], lr=0.01, momentum=0.9)
for _ in range(40):
    height, width = (32 * random.randint(8, 32) for _ in range(2))
    x = torch.randn(BATCH, 3, height, width, device="cuda")
    loss = 0
    for one, head in zip(stages, heads):
        x = one(x)
        loss = loss + head(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
