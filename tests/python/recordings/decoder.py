"""A decoder with grouped-query attention and a cache of keys and values, as these programs use it."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.queries = nn.Linear(width, width, bias=False)
        self.both = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.gate, self.up = (nn.Linear(width, 8 * width // 3, bias=False) for _ in range(2))
        self.down = nn.Linear(8 * width // 3, width, bias=False)

    def forward(self, x, cache=None):
        batch, length, _ = x.shape
        h = self.norms[0](x)
        queries = self.queries(h).view(batch, length, self.heads, self.size).transpose(1, 2)
        keys, values = self.both(h).view(batch, length, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        if cache is not None:
            keys, values = cache.append(keys, values)
        repeat = self.heads // self.groups
        keys, values = (one.repeat_interleave(repeat, 1) for one in (keys, values))
        h = functional.scaled_dot_product_attention(queries, keys, values, is_causal=length == keys.shape[2])
        x = x + self.out(h.transpose(1, 2).reshape(batch, length, -1))
        h = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, width=1024, heads=16, groups=4, layers=12, words=32_000):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, heads, groups) for _ in range(layers)])
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens, caches=None):
        x = self.words(tokens)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, cache)
        return self.head(self.norm(x))


class GrowingCache:
    """Keys and values that grow by concatenation, as in transformers."""

    def __init__(self):
        self.held = None

    def append(self, *new):
        if self.held is None:
            self.held = new
        else:
            self.held = tuple(torch.cat(pair, 2) for pair in zip(self.held, new))
        return self.held

    def truncate(self, length):
        self.held = tuple(one[:, :, :length].contiguous() for one in self.held)

    @property
    def length(self):
        return self.held[0].shape[2]


def caches(model):
    return [GrowingCache() for _ in model.blocks]


def tokens(batch, length):
    return torch.randint(0, 32_000, (batch, length), device="cuda")


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
