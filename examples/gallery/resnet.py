"""Training of ResNet-50 on images of 224 by 224, in the memory format of convolutions on tensor cores."""

import torch
from torch.nn.functional import cross_entropy
from torchvision.models import resnet50

from training import arguments, train

options = arguments(batch=256)
model = resnet50().cuda().to(memory_format=torch.channels_last)


def batch():
    images = torch.randn(options.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return images, torch.randint(1000, (options.batch,), device="cuda")


train(model, batch, lambda model, pair: cross_entropy(model(pair[0]), pair[1]), options.steps)
