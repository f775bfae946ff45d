"""A loader on a stream of its own copies and scales the next batch while the network trains on the last one."""

import os
import random

import torch
from torch import nn

random.seed(8)


def convolution(inputs, outputs, size, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


layers = [convolution(3, 64, 7, 2), *(convolution(64, 64, 3) for _ in range(6))]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
loader = torch.cuda.Stream()


def load(batch, side):
    with torch.cuda.stream(loader):
        images = torch.empty(batch, 3, side, side).cuda(non_blocking=True)
        return images.sub(0.5).div(0.2)


shapes = [(random.choice([16, 32]), random.choice([160, 192, 224, 256])) for _ in range(7)]
shapes += shapes[-1:] * int(os.environ.get("REPEATED", 96))
following = load(*shapes[0])
for shape in shapes:
    images = following
    torch.cuda.current_stream().wait_stream(loader)
    images.record_stream(torch.cuda.current_stream())
    following = load(*shape)
    loss = model(images).float().logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
