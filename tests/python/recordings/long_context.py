"""Long contexts: prompts of up to 24,000 tokens in chunks of 2,048, each followed by a few tokens."""

import random

import torch
from decoder import Decoder, caches, tokens

random.seed(0)
model = Decoder(width=2048, heads=32, groups=8, layers=12).cuda().bfloat16().eval()
with torch.no_grad():
    for _ in range(8):
        prompt, held = random.randint(3_000, 24_000), caches(model)
        while prompt > 0:
            model(tokens(1, min(prompt, 2048)), held)[:, -1].float()
            prompt -= 2048
        for _ in range(12):
            model(tokens(1, 1), held)[:, -1].float().softmax(-1)
