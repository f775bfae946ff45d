"""Trains with batches of changing shape, and prints the peaks that PyTorch reports."""

import json

import torch

layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
copies = torch.cuda.Stream()
for step in range(12):
    with torch.cuda.stream(copies):
        x = torch.randn(8, 128 + 96 * (step * 7 % 5), 512).cuda(non_blocking=True)
    torch.cuda.current_stream().wait_stream(copies)
    x.record_stream(torch.cuda.current_stream())
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
stats = torch.cuda.memory_stats()
names = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries")
kinds = sorted({segment["is_expandable"] for segment in torch.cuda.memory_snapshot()})
torch.cuda.synchronize()
del model, optimizer, x
torch.cuda.empty_cache()
print(json.dumps({**{name: stats[name] for name in names}, "expandable": kinds, "left": torch.cuda.memory_reserved()}))
