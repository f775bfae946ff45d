"""Further programs that work on images."""

import torch
from further_layers import Denoiser, Layer
from further_text import HALF, adam
from torch import nn
from torch.nn import functional


def denoiser(rng):
    """A U-Net on images of many sizes."""
    model = Denoiser().cuda()
    optimizer = adam(model)

    def step(batch, side):
        x = torch.randn(batch, 4, side, side, device="cuda")
        noise, time = torch.randn_like(x), torch.randn(batch, 512, device="cuda")
        with torch.autocast("cuda", HALF):
            loss = functional.mse_loss(model(x + noise, time).float(), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return lambda: (rng.choice([4, 6, 8]), rng.choice([48, 64, 80])), step


def patches(rng):
    """A vision transformer whose gradients live until the next step."""
    width, parts = 1024, nn.ModuleDict()
    parts["patches"], parts["head"] = nn.Conv2d(3, width, 16, 16), nn.Linear(width, 1000)
    parts["layers"] = nn.ModuleList(Layer(width, 16) for _ in range(12))
    optimizer = adam(parts.cuda())

    def step(batch):
        x = torch.randn(batch, 3, 224, 224, device="cuda")
        with torch.autocast("cuda", HALF):
            x = parts["patches"](x).flatten(2).transpose(1, 2)
            for layer in parts["layers"]:
                x = layer(x)
            classes = torch.zeros(batch, dtype=torch.long, device="cuda")
            loss = functional.cross_entropy(parts["head"](x.mean(1)).float(), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return lambda: (rng.choice([16, 32]),), step


def adversarial(rng):
    """A generator and a critic with a penalty on its gradient."""
    ups = [(nn.ConvTranspose2d(512 >> n, 256 >> n, 4, 2, 1), nn.BatchNorm2d(256 >> n), nn.ReLU()) for n in range(4)]
    generator = nn.Sequential(*[one for up in ups for one in up], nn.Conv2d(32, 3, 3, padding=1)).cuda()
    downs = [(nn.LeakyReLU(0.2), nn.Conv2d(64 << n, 128 << n, 4, 2, 1), nn.InstanceNorm2d(128 << n)) for n in range(3)]
    layers = [one for down in downs for one in down]
    critic = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), *layers, nn.Flatten(), nn.LazyLinear(1)).cuda()
    critic(torch.zeros(1, 3, 128, 128, device="cuda"))
    optimizers = [torch.optim.Adam(one.parameters()) for one in (generator, critic)]

    def step(batch):
        real = torch.randn(batch, 3, 128, 128, device="cuda")
        fake = generator(torch.randn(batch, 512, 8, 8, device="cuda"))
        loss = functional.softplus(-critic(real)).mean() + functional.softplus(critic(fake.detach())).mean()
        varied = real.clone().requires_grad_()
        (slope,) = torch.autograd.grad(critic(varied).sum(), varied, create_graph=True)
        optimizers[1].zero_grad()
        (loss + slope.square().sum((1, 2, 3)).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        functional.softplus(-critic(fake)).mean().backward()
        optimizers[0].step()

    return lambda: (rng.choice([32, 48, 64]),), step


def prefetch(rng):
    """A loader on a stream of its own copies and scales the next batch while the network trains on the last one."""

    def convolution(inputs, size, stride):
        return nn.Conv2d(inputs, 64, size, stride, size // 2), nn.BatchNorm2d(64), nn.ReLU()

    layers = [convolution(3, 7, 2), *(convolution(64, 3, 1) for _ in range(6))]
    layers = [one for layer in layers for one in layer]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loader, following = torch.cuda.Stream(), []

    def load(batch, side):
        with torch.cuda.stream(loader):
            images = torch.empty(batch, 3, side, side).cuda(non_blocking=True)
            return images.sub(0.5).div(0.2)

    def step(*shape):
        images = following.pop() if following else load(*shape)
        torch.cuda.current_stream().wait_stream(loader)
        images.record_stream(torch.cuda.current_stream())
        following.append(load(*shape))
        loss = model(images).float().logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return lambda: (rng.choice([16, 32]), rng.choice([160, 192, 224, 256])), step


def sampling(rng):
    """Images by guided diffusion, decoded to eight times their size."""
    model = Denoiser((128, 256, 384)).cuda().to(HALF)

    def double(inputs):
        outputs = inputs // 2
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        return nn.Sequential(nn.Upsample(scale_factor=2), convolution, nn.GroupNorm(16, outputs), nn.SiLU())

    doubles = [double(256 >> n) for n in range(3)]
    decoder = nn.Sequential(nn.Conv2d(4, 256, 3, padding=1), *doubles, nn.Conv2d(32, 3, 3, padding=1))
    decoder = decoder.cuda().to(HALF)

    @torch.no_grad()
    def step(batch, height, width):
        x = torch.randn(batch, 4, height, width, device="cuda", dtype=HALF)
        time = torch.randn(2 * batch, 512, device="cuda", dtype=HALF)
        for _ in range(5):
            plain, guided = model(torch.cat((x, x)), time).chunk(2)
            x = x - 0.1 * (plain + 5 * (guided - plain))
        decoder(x).float().clamp(0, 1)

    return lambda: (rng.choice([2, 4, 8]), rng.choice([64, 96, 128]), rng.choice([64, 80, 96])), step


ALL = (denoiser, patches, adversarial, prefetch, sampling)
PROGRAMS = {one.__name__: one for one in ALL}
