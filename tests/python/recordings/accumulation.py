"""Gradients of four batches, each of a length of its own, are accumulated for a step, and weights are averaged."""

import copy
import os
import random

import torch
from decoder import Decoder, loss_of, tokens

random.seed(5)
model = Decoder(width=1024, layers=10).cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

for _ in range(int(os.environ.get("STEPS", 16))):
    for _ in range(4):
        length = random.randint(64, 512)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(tokens(4, length)), tokens(4, length)) / 4
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
