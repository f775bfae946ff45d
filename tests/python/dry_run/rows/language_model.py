"""A language model in plain operators, its loss and its AdamW, with the intermediate tensors of the published ones.

The published model is `cs336_basics` of Wedsonlin/assignment2-systems. It uses no fused operator, so every intermediate
result is a tensor of the allocator. A tensor lives until its last name is bound again or its function returns: a name
more or less changes the peak.
"""

import math

import torch
from torch import nn


def softmax(values):
    shifted = values - torch.max(values, dim=-1, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def log_softmax(values):
    largest = torch.max(values, dim=-1, keepdim=True)[0]
    values = values - largest
    return values - torch.log(torch.sum(torch.exp(values), dim=-1, keepdim=True))


def cross_entropy(logits, targets):
    surprise = -log_softmax(logits)
    return torch.mean(torch.gather(surprise, -1, targets.unsqueeze(-1)))


def weight(*shape):
    """A weight on the host that is never written: the simulated copy to the GPU does not read it."""
    return nn.Parameter(torch.empty(*shape))


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = weight(outputs, inputs)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.weight = weight(words, width)

    def forward(self, words):
        return self.weight[words, :]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = weight(width)

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(dtype)


class Rotation(nn.Module):
    """Rotary positions, for all layers."""

    def __init__(self, tokens, width):
        super().__init__()
        frequencies = 10_000.0 ** -(torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(tokens).float(), frequencies)
        self.register_buffer("table", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x):
        even, odd = x.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cos, sin = self.table[:, : x.shape[-2], :].unbind(0)
        turned_even = cos * even - sin * odd
        turned_odd = sin * even + cos * odd
        return torch.concat((turned_even, turned_odd), dim=-1)


class Attention(nn.Module):
    def __init__(self, width, heads, rotation):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (Linear(width, width) for _ in range(4))
        self.rotation = rotation

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for part in (query, key, value))
        query = self.rotation(query)
        key = self.rotation(key)
        places = torch.arange(x.shape[-2], device=x.device)
        mask = (places[:, None] >= places[None, :])[None]
        mixed = masked_attention(query, key, value, mask)
        mixed = mixed.transpose(-3, -2).flatten(-2).contiguous()
        return self.output(mixed)


def masked_attention(query, key, value, mask):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, value)


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.down, self.up = Linear(width, inner), Linear(inner, width), Linear(width, inner)

    def forward(self, x):
        return self.down(swish(self.gate(x)) * self.up(x))


def swish(x):
    return x * torch.sigmoid(x)


class Block(nn.Module):
    def __init__(self, width, heads, inner, rotation):
        super().__init__()
        self.attention = Attention(width, heads, rotation)
        self.feed_forward = FeedForward(width, inner)
        self.norm_1, self.norm_2 = Norm(width), Norm(width)

    def forward(self, x):
        attended = self.attention(self.norm_1(x))
        middle = x + attended
        added = self.feed_forward(self.norm_2(middle))
        return middle + added


class LanguageModel(nn.Module):
    def __init__(self, words, tokens, width, layers, heads, inner):
        super().__init__()
        self.embedding = Embedding(words, width)
        self.rotation = Rotation(tokens, width // heads)
        self.blocks = nn.ModuleList(Block(width, heads, inner, self.rotation) for _ in range(layers))
        self.norm = Norm(width)
        self.head = Linear(width, words)

    def forward(self, words):
        embedded = self.embedding(words)
        x = embedded
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x)


class AdamW(torch.optim.Optimizer):
    """AdamW with a new tensor for every intermediate result and every moment.

    The names of a parameter hold their tensors until the next parameter binds them: this is part of the peak.
    """

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01})

    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.data
                state = self.state[parameter]
                count = state.get("count", 1)
                rate = group["lr"] * math.sqrt(1 - second**count) / (1 - first**count)
                parameter.data -= group["lr"] * group["decay"] * parameter.data
                old_mean = state.get("mean", torch.zeros_like(gradient))
                old_square = state.get("square", torch.zeros_like(gradient))
                mean = first * old_mean + (1 - first) * gradient
                square = second * old_square + (1 - second) * torch.square(gradient)
                parameter.data -= rate * mean / (torch.sqrt(square) + group["eps"])
                state["mean"], state["square"], state["count"] = mean, square, count + 1
