"""Trains a GPT with a vocabulary of 151,936 words for three steps, plain or checkpointed, and marks its passes."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, DEPTH, LENGTH = 151_936, 512, 8, 512
is_checkpointed = "--checkpoint" in sys.argv
is_backward = False


def marked(block, x):
    """The block; under a mark where the backward pass calls it again."""
    if not is_backward:
        return block(x)
    with record_function("recomputation"):
        return block(x)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(DEPTH)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, text):
        x = self.tokens(text)
        for block in self.blocks:
            x = checkpoint(marked, block, x, use_reentrant=False) if is_checkpointed else block(x)
        return x


torch.manual_seed(0)
model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
text = torch.zeros(4, LENGTH + 1, dtype=torch.long, device="cuda")
for _ in range(3):
    with record_function("forward"):
        x = model(text[:, :-1])
    with record_function("logits"):
        loss = F.cross_entropy(model.head(x).flatten(0, 1), text[:, 1:].flatten())
    is_backward = True
    with record_function("backward"):
        loss.backward()
    is_backward = False
    with record_function("optimizer step"):
        optimizer.step()
    optimizer.zero_grad()
