"""Further programs that work on texts and speech."""

import copy

import torch
from decoder import Decoder, caches, loss_of, tokens
from further_layers import Layer
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HALF = torch.bfloat16


def train(loss, optimizer):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def adam(model):
    return torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)


def translation(rng):
    """An encoder and a decoder whose attention is spelled out."""
    width, parts = 768, nn.ModuleDict()
    parts["encoder"] = nn.ModuleList(Layer(width, 12, is_fused=False) for _ in range(8))
    parts["decoder"] = nn.ModuleList(Layer(width, 12, is_decoder=True, is_fused=False) for _ in range(8))
    parts["words"], parts["head"] = nn.Embedding(32_128, width), nn.Linear(width, 32_128, bias=False)
    optimizer = adam(parts.cuda())

    def step(batch, length, target):
        x = parts["words"](tokens(batch, length))
        for layer in parts["encoder"]:
            x = layer(x)
        y = parts["words"](tokens(batch, target))
        for layer in parts["decoder"]:
            y = layer(y, x)
        train(loss_of(parts["head"](y), tokens(batch, target)), optimizer)

    return lambda: (rng.choice([4, 8, 12]), rng.randint(100, 400), rng.randint(30, 120)), step


def speech(rng):
    """Spectrograms of 30 s, and texts of any length."""
    width, parts = 768, nn.ModuleDict()
    parts["first"], parts["second"] = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
    parts["encoder"] = nn.ModuleList(Layer(width, 12) for _ in range(8))
    parts["decoder"] = nn.ModuleList(Layer(width, 12, is_decoder=True) for _ in range(8))
    parts["words"] = nn.Embedding(32_000, width)
    optimizer = adam(parts.cuda())

    def step(batch, length):
        x = torch.randn(batch, 80, 3000, device="cuda")
        with torch.autocast("cuda", HALF):
            x = functional.gelu(parts["second"](functional.gelu(parts["first"](x)))).transpose(1, 2)
            for layer in parts["encoder"]:
                x = layer(x)
            y = parts["words"](tokens(batch, length))
            for layer in parts["decoder"]:
                y = layer(y, x)
            loss = loss_of(y @ parts["words"].weight.T, tokens(batch, length))
        train(loss, optimizer)

    return lambda: (rng.choice([4, 8]), rng.randint(20, 200)), step


class LowRank(nn.Module):
    def __init__(self, base, rank=16):
        super().__init__()
        self.base = base
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * 2


def low_rank(rng):
    """Adapters of low rank on a frozen model."""
    model = Decoder(width=1536, layers=16).requires_grad_(False)
    for block in model.blocks:
        for name in ("queries", "both", "out", "gate", "up", "down"):
            setattr(block, name, LowRank(getattr(block, name)))
    optimizer = adam(model.cuda().to(HALF))

    def step(batch, length):
        train(loss_of(model(tokens(batch, length)), tokens(batch, length)), optimizer)

    return lambda: (rng.choice([2, 4]), rng.randint(100, 700)), step


def accumulation(rng):
    """Gradients of four batches, each of a length of its own, for a step; the weights are averaged."""
    model = Decoder(width=1024, layers=10).cuda()
    average, optimizer = copy.deepcopy(model), adam(model)

    def step(*lengths):
        for length in lengths:
            with torch.autocast("cuda", HALF):
                loss = loss_of(model(tokens(4, length)), tokens(4, length)) / 4
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)

    return lambda: tuple(rng.randint(64, 512) for _ in range(4)), step


def checkpointed(rng):
    """Layers that are computed again in the backward pass."""
    model = Decoder(width=1536, layers=12).cuda().to(HALF)
    optimizer = adam(model)

    def step(batch, length):
        x = model.words(tokens(batch, length))
        for block in model.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        train(loss_of(model.head(model.norm(x)), tokens(batch, length)), optimizer)

    return lambda: (rng.choice([4, 8]), rng.randint(256, 1024)), step


def beams(rng):
    """Generation with four beams, whose caches are reordered for each token."""
    model = Decoder(width=1024, layers=12).cuda().to(HALF)

    @torch.no_grad()
    def step(batch, length, count):
        held = caches(model)
        logits = model(tokens(batch * 4, length), held)[:, -1]
        for _ in range(count):
            _scores = logits.float().log_softmax(-1)
            order = torch.zeros(batch * 4, dtype=torch.long, device="cuda")
            for cache in held:
                cache.held = tuple(one.index_select(0, order) for one in cache.held)
            logits = model(tokens(batch * 4, 1), held)[:, -1]

    return lambda: (rng.choice([4, 8]), rng.randint(64, 300), rng.randint(10, 40)), step


def preferences(rng):
    """Two answers, each scored by the model and by a frozen copy (DPO)."""
    policy, reference = (Decoder(width=1024, layers=8).cuda().to(HALF) for _ in range(2))
    optimizer = adam(policy)

    def score(model, text):
        logits = model(text)[:, :-1].float().log_softmax(-1)
        return logits.gather(-1, text[:, 1:, None]).sum((1, 2))

    def step(batch, better_length, worse_length):
        better, worse = tokens(batch, better_length), tokens(batch, worse_length)
        with torch.no_grad():
            old_better, old_worse = score(reference, better), score(reference, worse)
        gained = (score(policy, better) - old_better) - (score(policy, worse) - old_worse)
        train(-functional.logsigmoid(gained).mean(), optimizer)

    return lambda: (4, rng.randint(100, 400), rng.randint(100, 400)), step


def packed(rng):
    """One long row of texts."""
    model = Decoder(width=1024, layers=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step(length):
        with torch.autocast("cuda", HALF):
            loss = loss_of(model(tokens(1, length)), tokens(1, length))
        train(loss, optimizer)

    return lambda: (rng.randint(1500, 2500),), step


def held_gradients(rng):
    """Gradients that live until their successors exist."""
    model = Decoder(width=768, layers=10, heads=12).cuda()
    weights = list(model.parameters())
    momenta = [torch.zeros_like(one) for one in weights]
    held = []

    def step(batch, length):
        loss = loss_of(model(tokens(batch, length)), tokens(batch, length))
        held[:] = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient, momentum in zip(weights, held, momenta):
                momentum.mul_(0.9).add_(gradient)
                weight.sub_(momentum * 0.01)

    return lambda: (rng.choice([2, 4]), rng.randint(128, 512)), step


ALL = (translation, speech, low_rank, accumulation, checkpointed, beams, preferences, packed, held_gradients)
PROGRAMS = {one.__name__: one for one in ALL}
