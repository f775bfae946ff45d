"""Training of a vision transformer, ViT-L/16, on images of 224 by 224."""

import torch
from torch.nn.functional import cross_entropy
from torchvision.models import vit_l_16

from training import arguments, train

options = arguments(batch=64)
model = vit_l_16().cuda()


def batch():
    images = torch.randn(options.batch, 3, 224, 224, device="cuda")
    return images, torch.randint(1000, (options.batch,), device="cuda")


train(model, batch, lambda model, pair: cross_entropy(model(pair[0]), pair[1]), options.steps)
