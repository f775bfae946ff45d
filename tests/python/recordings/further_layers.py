"""Layers of the further programs."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Attention to itself or to another sequence; spelled out, it has its weights in memory."""

    def __init__(self, width, heads, is_fused):
        super().__init__()
        self.heads, self.is_fused = heads, is_fused
        self.queries, self.both, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, x, other=None):
        other = x if other is None else other
        batch, length, width = x.shape
        queries = self.queries(x).view(batch, length, self.heads, -1).transpose(1, 2)
        both = self.both(other).view(batch, other.shape[1], 2, self.heads, -1)
        keys, values = both.permute(2, 0, 3, 1, 4)
        if self.is_fused:
            mixed = functional.scaled_dot_product_attention(queries, keys, values)
        else:
            weights = (queries @ keys.transpose(-1, -2) / 8).float().softmax(-1).to(x.dtype)
            weights = functional.dropout(weights, 0.1)
            mixed = weights @ values
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A layer of an encoder, or of a decoder that looks at an encoder's output."""

    def __init__(self, width, heads, is_decoder=False, is_fused=True):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = Attention(width, heads, is_fused)
        self.cross = Attention(width, heads, is_fused) if is_decoder else None
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, encoded=None):
        x = x + self.own(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), encoded)
        return x + functional.dropout(self.feed(self.norms[1](x)), 0.1)


class Residual(nn.Module):
    """Two convolutions and a step of time."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)])
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.time = nn.Linear(512, outputs)

    def forward(self, x, time):
        h = self.first(functional.silu(self.norms[0](x)))
        h = h + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(functional.silu(self.norms[1](h)))


class Denoiser(nn.Module):
    """A U-Net with attention in the middle."""

    def __init__(self, channels=(128, 256, 384, 512)):
        super().__init__()
        before = (channels[0], *channels)
        self.head = nn.Conv2d(4, channels[0], 3, padding=1)
        self.down = nn.ModuleList(
            nn.ModuleList([Residual(inputs, outputs), Residual(outputs, outputs)])
            for inputs, outputs in zip(before, channels)
        )
        self.middle, self.attention = Residual(channels[-1], channels[-1]), Attention(channels[-1], 8, True)
        above = (channels[-1], *reversed(channels))
        self.up = nn.ModuleList(
            nn.ModuleList([Residual(inputs + outputs, outputs), Residual(outputs, outputs)])
            for inputs, outputs in zip(above, reversed(channels))
        )
        self.tail = nn.Conv2d(channels[0], 4, 3, padding=1)

    def forward(self, x, time):
        x, skipped = self.head(x), []
        for first, second in self.down:
            x = second(first(x, time), time)
            skipped.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.middle(x, time)
        batch, channels, height, width = x.shape
        mixed = self.attention(x.flatten(2).transpose(1, 2))
        x = x + mixed.transpose(1, 2).reshape(batch, channels, height, width)
        for first, second in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = second(first(torch.cat((x, skipped.pop()), 1), time), time)
        return self.tail(x)
