"""Three steps of a small network by accelerate."""

import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
for _ in range(3):
    optimizer.zero_grad()
    accelerator.backward(model(torch.ones(64, 1024, device=accelerator.device)).sum())
    optimizer.step()
