"""Training with experts: each token goes to two of eight, so that the experts' batches differ from step to step."""

import os
import random

import torch
from torch import nn
from torch.nn import functional

random.seed(0)
BATCH = int(os.environ.get("BATCH", 8))


class Experts(nn.Module):
    def __init__(self, width=1024, count=8):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights = functional.softmax(self.router(flat).float(), -1).to(x.dtype)
        made = torch.zeros_like(flat)
        shares = [random.random() ** 2 for _ in self.experts]
        for at, (expert, share) in enumerate(zip(self.experts, shares)):
            count = max(1, int(2 * len(flat) * share / sum(shares)))
            chosen = torch.randperm(len(flat), device="cuda")[: min(count, len(flat))]
            made = made.index_add(0, chosen, expert(flat[chosen]) * weights[chosen, at : at + 1])
        return x + made.view_as(x)


layers = []
for _ in range(4):
    layers += [nn.TransformerEncoderLayer(1024, 16, 2048, batch_first=True, norm_first=True), Experts()]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(int(os.environ.get("STEPS", 12))):
    x = torch.randn(BATCH, 512, 1024, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
