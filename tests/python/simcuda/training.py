"""Transformer models train: default and eager attention, AMP, fused AdamW, checkpointing, an encoder-decoder."""

import common

common.load()

import torch
import torch.nn as nn


def train(model, loss_of, steps=3, amp=True):
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    device_allocs = []
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert loss.item() == 0.0, "device memory reads as zeros"
        device_allocs.append(torch.cuda.memory_stats()["num_device_alloc"])
        common.check_accounts()
    assert device_allocs[1] == device_allocs[-1], f"steps that repeat need no new segments: {device_allocs}"


def tokens(batch=4, length=256):
    return torch.randint(0, 1000, (batch, length), device="cuda")


def peak(model, amp=True):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    train(model, lambda model: model(tokens()), amp=amp)
    return torch.cuda.max_memory_allocated() - before


name = torch.cuda.get_device_name()
assert name.startswith("vramtape simulated"), name
FLASH, EFFICIENT = 1, 2
half = torch.empty(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16)
assert torch._fused_sdp_choice(half, half, half) == FLASH
assert torch._fused_sdp_choice(*[half.float()] * 3) == EFFICIENT
del half

train(common.gpt().cuda(), lambda model: model(tokens()))  # makes what is made once, such as cuBLAS's workspaces
plain = peak(common.gpt().cuda())
assert peak(common.gpt(checkpointing=True).cuda()) < plain, "checkpointing keeps fewer activations"
assert peak(common.gpt(eager=True).cuda()) > plain, "eager attention keeps its scores"
peak(common.gpt().cuda(), amp=False)
peak(common.gpt().to(device="cuda", dtype=torch.bfloat16), amp=False)

width = 128
transformer = nn.Transformer(width, 4, 2, 2, 256, batch_first=True).cuda()
pair = torch.empty(2, 4, 64, width, device="cuda")
train(transformer, lambda model, pair=pair: model(pair[0], pair[1]).float().mean())
transformer.eval()
with torch.inference_mode():
    transformer(pair[0], pair[1])

del transformer, pair
common.release_everything()
assert torch.cuda.memory_allocated() == 0 and common.used_bytes() == 0, common.used_bytes()
