"""Operations besides the layers: scaling, clipping, sorting, sampling, loaders, caches, profiles."""

import common

common.load()

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

model = common.gpt().cuda()
tokens = torch.zeros(2, 64, dtype=torch.long, device="cuda")

for fused, foreach in ((True, False), (False, True), (False, False)):
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=foreach)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(tokens)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

logits = torch.empty(4, 1000, device="cuda")
values, indices = logits.topk(50)
assert values.shape == indices.shape == (4, 50)
assert logits.sort(descending=True)[0].shape == logits.shape
assert torch.multinomial(logits.softmax(-1), 2).shape == (4, 2)
assert logits.argmax(-1).tolist() == [0] * 4
assert logits.nonzero().shape == (0, 2), "a count that is read from the device is 0"
logits[tokens[0, :4]] = 1.0
logits.cumsum(-1), logits.std(), logits.norm(), torch.linalg.vector_norm(logits), logits.tril()
torch.cat([logits, logits]).scatter_add_(0, tokens[:, :4], logits[:2, :4])
torch.randperm(1000, device="cuda"), torch.nn.init.normal_(logits), torch.bernoulli(logits)
torch.einsum("ab,cb->ac", logits, logits), torch.baddbmm(logits[None], logits[None, :, :4], logits[None])
F.layer_norm(logits.half(), (1000,)), F.gelu(logits.bfloat16()), F.one_hot(tokens, 1000)
F.interpolate(torch.empty(1, 3, 8, 8, device="cuda"), scale_factor=2)

cache = [torch.empty(1, 4, 0, 32, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
query = torch.empty(1, 4, 1, 32, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(20):
        cache = [torch.cat([old, query], dim=2) for old in cache]
        F.scaled_dot_product_attention(query, *cache)
assert cache[0].shape[2] == 20

loader = DataLoader(TensorDataset(torch.arange(32)), batch_size=8, pin_memory=True, num_workers=1)
batches = [batch.to("cuda", non_blocking=True) for (batch,) in loader]
assert len(batches) == 4 and torch.cuda.host_memory_stats()["allocated_bytes.current"] >= 0

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
    model(tokens).backward()
assert any(event.self_device_memory_usage > 0 for event in profile.key_averages())

free, total = torch.cuda.mem_get_info()
assert f"{total / 2**20:.0f}" and torch.cuda.memory_summary() and torch.cuda.list_gpu_processes() is not None
common.check_accounts()
