"""Rank 0 of two: 3.4 billion parameters with all of AdamW's moments, or with half of them.

The published program is `cs336_systems/sharded_optimizer.py` of Wedsonlin/assignment2-systems, which continues for 15
steps after the phases that it measures. Argument: `plain` or `sharded`.
"""

import torch
import torch.distributed as dist
from figures import arguments, figure
from language_model import LanguageModel, cross_entropy

WORDS = 10_000
TOKENS = 512
RANKS = 2
BATCH = 4 // RANKS


class Averaged(torch.nn.Module):
    """Data parallelism: each gradient is averaged over the ranks as soon as it is complete."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.pending = []
        with torch.no_grad():
            for parameter in model.parameters():
                dist.broadcast(parameter, src=0)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self._average)

    def _average(self, parameter):
        self.pending.append(dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, async_op=True))

    def forward(self, words):
        return self.model(words)

    def wait(self):
        while self.pending:
            self.pending.pop(0).wait()


class Sharded(torch.optim.Optimizer):
    """AdamW of this rank's part of one flat tensor of all parameters, from which all ranks get all parts."""

    @torch.no_grad()
    def __init__(self, parameters):
        parameters = list(parameters)
        total = sum(parameter.numel() for parameter in parameters)
        self.flat = torch.empty(total, device="cuda")
        begin = dist.get_rank() * total // RANKS
        end = begin + total // RANKS
        self.mine = self.flat[begin:end]
        # This rank's part of a parameter, the parameter, and where the part begins and ends in it.
        self.parts = []
        at = 0
        for parameter in parameters:
            place = self.flat[at : at + parameter.numel()]
            place.copy_(parameter.data.view(-1))
            parameter.set_(place.view_as(parameter))
            low, high = max(at, begin), min(at + parameter.numel(), end)
            if low < high:
                self.parts.append((self.flat[low:high], parameter, low - at, high - at))
            at += parameter.numel()
        super().__init__(parameters, {})
        self.inner = torch.optim.AdamW([part for part, *_ in self.parts], lr=1e-3, foreach=False)

    def step(self):
        for part, parameter, low, high in self.parts:
            part.grad = parameter.grad.view(-1)[low:high]
        self.inner.step()
        dist.all_gather_into_tensor(self.flat, self.mine)


def end_phase(name):
    torch.cuda.synchronize()
    figure(f"allocated_{name}", torch.cuda.memory_allocated())
    figure(f"peak_{name}", torch.cuda.max_memory_allocated())
    torch.cuda.reset_peak_memory_stats()


(kind,) = arguments(str)
dist.init_process_group("nccl")
model = LanguageModel(words=WORDS, tokens=TOKENS, width=2560, layers=32, heads=32, inner=10240)
model = Averaged(model.to("cuda"))
end_phase("after_model")
if kind == "sharded":
    optimizer = Sharded(model.parameters())
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
inputs, targets = (torch.randint(WORDS, (BATCH, TOKENS), device="cuda") for _ in range(2))
with torch.autocast("cuda", torch.bfloat16):
    loss = cross_entropy(model(inputs), targets)
loss.backward()
model.wait()
end_phase("before_optimizer")
optimizer.step()
end_phase("after_optimizer")
