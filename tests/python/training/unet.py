"""A diffusion model of diffusers, from a config: noise is added at random times, and the U-Net learns to name it."""

import torch
from diffusers import DDPMScheduler, UNet2DModel

from report import report

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=32,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 64, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
).cuda()
noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

for _ in range(3):
    images = torch.randn(8, 3, 32, 32).cuda()
    noise = torch.randn_like(images)
    times = torch.randint(0, 1000, (8,), device="cuda")
    noisy = noise_scheduler.add_noise(images, noise, times)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(noisy, times).sample, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
report(loss=loss.item())
