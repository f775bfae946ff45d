"""Trains small models on the processor, where numbers are real, and prints every loss and the norms of the gradients.

Then on the device, where allocations are real: prints the bytes that PyTorch counts.
"""

import vramtape

vramtape.install(route="pluggable")
import torch
from models import GPT, ResNet

torch.manual_seed(0)
torch.set_num_threads(1)
loss_of = torch.nn.CrossEntropyLoss()
models = {
    "gpt": (GPT, {}),
    "checkpointed": (GPT, {"is_checkpointed": True}),
    "checkpointed, reentrant": (GPT, {"is_checkpointed": True, "is_reentrant": True}),
    "resnet": (ResNet, {}),
}

for device in ("cpu", "cuda"):
    torch.use_deterministic_algorithms(device == "cpu")  # On the device it would refuse cuBLAS in 2.7.
    for name, (kind, options) in models.items():
        model = kind(**options).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        inputs = torch.randint(0, 512, (4, 64)) if kind is GPT else torch.randn(4, 3, 32, 32)
        targets = torch.randint(0, 10, (4, 64) if kind is GPT else (4,))
        inputs, targets = inputs.to(device), targets.to(device)
        for step in range(4):
            loss = loss_of(model(inputs).flatten(0, -2), targets.flatten())
            loss.backward()
            if device == "cpu":
                norms = [one.grad.norm().item().hex() for one in model.parameters()]
                print(name, step, loss.item().hex(), *norms)
            optimizer.step()
            optimizer.zero_grad()
        if device == "cuda":
            print(name, torch.cuda.max_memory_allocated(), torch.cuda.memory_stats()["allocation.all.allocated"])
