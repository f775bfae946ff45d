"""Trains a small model; its lines are what `test_holders.py` expects to hold the memory."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import load_simcuda

load_simcuda()
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))  # LINE forward


def main():
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for _ in range(3):
        x = torch.randn(8192, 1024, device="cuda")
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if "oom" in sys.argv:
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")  # LINE refused
        except torch.OutOfMemoryError:
            pass
    if "profile" in sys.argv:
        import vramtape

        with vramtape.profile(sys.argv[-1]) as block:
            net(x).sum().backward()
        print(block.memory_stats["holders"]["peak"]["rows"][0]["label"])


main()
