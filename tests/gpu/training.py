"""Real training, twice over: a GPT and a small convolutional net. The digest of all losses and parameters has to be the
same under every allocator, bit for bit.
"""

import hashlib
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocabulary=8192, length_max=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length_max, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for wide in (32, 64, 128):
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.AvgPool2d(2)]
            channels = wide
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(channels, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


def train(model, batches, digest):
    """Trains over batches of changing shapes, as real input has them; steps per second without the first two."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    began = 0.0
    for step, (inputs, targets) in enumerate(batches):
        if step == 2:
            torch.cuda.synchronize()
            began = time.perf_counter()
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        digest.update(loss.detach().cpu().numpy().tobytes())
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return (len(batches) - 2) / seconds


def run(simulated):
    torch.manual_seed(1)
    digest = hashlib.sha256()
    layers, width, steps = (2, 64, 4) if simulated else (12, 768, 40)
    torch.cuda.reset_peak_memory_stats()
    gpt = Gpt(layers, width, width // 64 or 1).cuda()
    lengths = [64 + 37 * (step % 7) for step in range(steps)]
    tokens = [torch.randint(0, 8192, (8, length), device="cuda") for length in lengths]
    gpt_speed = train(gpt, [(batch, batch.roll(-1, 1)) for batch in tokens], digest)
    del gpt, tokens
    net = Convolutional().cuda()
    side = 32 if simulated else 96
    sizes = [8 + 8 * (step % 5) for step in range(steps)]
    batches = [
        (torch.randn(size, 3, side, side, device="cuda"), torch.randint(0, 10, (size,), device="cuda"))
        for size in sizes
    ]
    convolution_speed = train(net, batches, digest)
    return {
        "digest": digest.hexdigest(),
        "gpt_steps_per_second": round(gpt_speed, 2),
        "convolution_steps_per_second": round(convolution_speed, 2),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
    }
