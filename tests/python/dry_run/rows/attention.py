"""Attention in plain operators: the memory that a forward pass leaves for its backward pass, at 20 sizes.

The published program is `cs336_systems/attention_benchmark.py` of Wedsonlin/assignment2-systems, which also measures
time: it repeats each pass more often. Argument: `eager` or `compiled`.
"""

import gc
import itertools
import math

import torch
from figures import arguments, figure
from language_model import softmax

BATCH = 8
TOKENS = (256, 1024, 4096, 8192, 16384)
WIDTHS = (16, 32, 64, 128)
REPEATS = 2


def attention(query, key, value):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    return torch.einsum("...qk,...kd->...qd", softmax(scores), value)


def forget_gradients(tensors):
    for tensor in tensors:
        tensor.grad = None
    gc.collect()
    torch.cuda.empty_cache()


def measure(tokens, width):
    shape = (BATCH, tokens, width)
    leaves = [torch.randn(shape, device="cuda", requires_grad=True) for _ in range(3)]
    gradient = torch.randn_like(leaves[0])
    for _ in range(REPEATS):
        warm = attention(*leaves)  # The last of them lives on, as in the published program.
        warm.backward(gradient)
        forget_gradients(leaves)
    for _ in range(REPEATS):
        attention(*leaves)
    forget_gradients(leaves)
    output = attention(*leaves)
    figure(f"activation-{tokens}x{width}", torch.cuda.memory_allocated())
    for _ in range(REPEATS):
        output.backward(gradient, retain_graph=True)
    del warm


(kind,) = arguments(str)
if kind == "compiled":
    attention = torch.compile(attention)
    # A second backward pass of the same graph needs its buffers.
    torch._functorch.config.donated_buffer = False
for tokens, width in itertools.product(TOKENS, WIDTHS):
    measure(tokens, width)
    gc.collect()
    torch.cuda.empty_cache()
