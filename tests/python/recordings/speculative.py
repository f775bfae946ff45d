"""Speculative decoding: a small model proposes five tokens, a large one checks them, and the rejected are dropped."""

import random

import torch
from decoder import Decoder, caches, tokens

random.seed(0)
draft = Decoder(width=512, heads=8, groups=2, layers=4).cuda().bfloat16().eval()
target = Decoder(width=2048, heads=32, groups=8, layers=12).cuda().bfloat16().eval()
with torch.no_grad():
    for _ in range(6):
        batch, prompt = random.choice((1, 2, 4, 8)), random.randint(100, 1500)
        proposed, checked = caches(draft), caches(target)
        given = tokens(batch, prompt)
        draft(given, proposed)
        target(given, checked)
        made = 0
        while made < 48:
            for _ in range(5):
                draft(tokens(batch, 1), proposed)[:, -1].float().softmax(-1)
            logits = target(tokens(batch, 6), checked).float()
            logits.softmax(-1)
            accepted = random.randint(1, 6)
            made += accepted
            for cache in (*proposed, *checked):
                cache.truncate(min(cache.length, prompt + made))
