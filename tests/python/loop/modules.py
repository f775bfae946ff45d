"""Trains a small GPT and a small ResNet on the processor, where numbers are real, and prints every loss.

Then on the device: the bytes that PyTorch counts after each step.
"""

import sys

import vramtape

vramtape.install(route="pluggable")
import torch
from models import GPT, ResNet

torch.manual_seed(0)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def train(model, inputs, targets, steps, loss_of):
    model.to(inputs.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = loss_of(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        yield loss, optimizer
        optimizer.step()
        optimizer.zero_grad()


loss_of = torch.nn.CrossEntropyLoss()
for device in ("cpu", "cuda"):
    for name, model in (("gpt", GPT()), ("checkpointed", GPT(is_checkpointed=True)), ("resnet", ResNet())):
        is_gpt = isinstance(model, GPT)
        inputs = torch.randint(0, 512, (4, 64)) if is_gpt else torch.randn(4, 3, 32, 32)
        targets = torch.randint(0, 512, (4, 64)) if is_gpt else torch.randint(0, 10, (4,))
        for step, (loss, _) in enumerate(train(model, inputs.to(device), targets.to(device), 4, loss_of)):
            value = loss.item().hex() if device == "cpu" else torch.cuda.memory_allocated()
            gradients = torch.stack([one.grad.norm() for one in model.parameters()]) if device == "cpu" else None
            total = gradients.sum().item().hex() if gradients is not None else torch.cuda.max_memory_allocated()
            print(name, device, step, value, total)
