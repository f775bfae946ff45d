"""Training of the U-Net of Stable Diffusion 1.5 to predict noise, on latents of images of 512 by 512."""

import torch
from diffusers import UNet2DConditionModel
from torch.nn.functional import mse_loss

from training import arguments, train

options = arguments(batch=8)
with torch.device("cuda"):
    model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
if options.checkpoint == "on":
    model.enable_gradient_checkpointing()


def batch():
    noisy = torch.randn(options.batch, 4, 64, 64, device="cuda")
    times = torch.randint(1000, (options.batch,), device="cuda")
    return noisy, times, torch.randn(options.batch, 77, 768, device="cuda")


def loss(model, tensors):
    noisy, times, text = tensors
    return mse_loss(model(noisy, times, text).sample.float(), torch.randn_like(noisy))


train(model, batch, loss, options.steps)
