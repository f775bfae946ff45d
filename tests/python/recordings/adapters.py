"""Fine-tuning by adapters: frozen weights, checkpointed layers, and batches of the length of their longest text."""

import os
import random

import torch
from decoder import Decoder, loss_of, tokens
from torch import nn
from torch.utils.checkpoint import checkpoint

random.seed(0)
BATCH = int(os.environ.get("BATCH", 4))


class Adapter(nn.Module):
    def __init__(self, base, rank=16):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )

    def forward(self, x):
        return self.base(x) + 2.0 * self.up(self.down(x))


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, cache=None):
        return checkpoint(self.block, x, use_reentrant=False)


model = Decoder(width=2048, heads=32, groups=8, layers=12).requires_grad_(False)
for block in model.blocks:
    block.queries, block.both, block.out = (Adapter(one) for one in (block.queries, block.both, block.out))
model.blocks = nn.ModuleList(Checkpointed(block) for block in model.blocks)
model = model.cuda().bfloat16()
model.words.weight.requires_grad_(True)
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
for _ in range(24):
    text = tokens(BATCH, 64 * random.randint(2, 20))
    for part in text.split(max(1, BATCH // 2)):
        loss_of(model(part[:, :-1]), part[:, 1:]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
