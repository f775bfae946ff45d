"""Three steps of a small network by Lightning Fabric, whose settings are on its own command line."""

import torch
from lightning import Fabric

fabric = Fabric()
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
for _ in range(3):
    optimizer.zero_grad()
    fabric.backward(model(torch.ones(64, 1024, device=fabric.device)).sum())
    optimizer.step()
