"""Shared by the simcuda tests: loading the stand-in before torch, and a small GPT."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

load = harness.load_simcuda

MIB = 1 << 20


def gpt(layers=2, width=128, heads=4, vocabulary=1000, checkpointing=False, eager=False):
    """A GPT with PyTorch's own layers; `eager` writes attention out."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def attend(self, q, k, v):
            if not eager:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
            length = q.shape[-2]
            mask = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
            scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(mask, float("-inf"))
            return F.dropout(scores.softmax(-1), 0.1) @ v

        def forward(self, x):
            batch, length, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(batch, length, 3, heads, width // heads)
            attended = self.attend(*qkv.permute(2, 0, 3, 1, 4))
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.head = nn.Linear(width, vocabulary)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if checkpointing else block(x)
            logits = self.head(x)
            return F.cross_entropy(logits.view(-1, vocabulary), tokens.view(-1))

    return Gpt()


def used_bytes(device=None):
    """The memory in use, as the driver reports it."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    return total - free


def check_accounts(device=None):
    """PyTorch and the driver agree on what is reserved, and PyTorch's statistics are consistent."""
    import torch

    stats = torch.cuda.memory_stats(device)
    reserved = stats["reserved_bytes.all.current"]
    assert used_bytes(device) == reserved, (used_bytes(device), reserved)
    segments = torch.cuda.memory_snapshot()
    ordinal = torch.cuda.current_device() if device is None else device
    total = sum(segment["total_size"] for segment in segments if segment["device"] == ordinal)
    assert total == reserved, (total, reserved)


def not_simulated(library):
    """The calls of this process that the simulated driver refused, a line each."""
    import ctypes

    text = ctypes.create_string_buffer(1 << 16)
    assert library.simcuda_not_simulated(text, len(text)) == 0
    return text.value.decode()


def release_everything():
    """Gives all cached memory back; nothing may be left after it."""
    import gc

    import torch

    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
