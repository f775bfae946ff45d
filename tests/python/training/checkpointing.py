"""An exercise of courses: activations kept against activations computed again."""

import torch
from torch.utils.checkpoint import checkpoint_sequential

from report import report


def peak_of(segments):
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(16)])
    model.cuda()
    features = torch.randn(1024, 512, device="cuda", requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        output = checkpoint_sequential(model, segments, features, use_reentrant=False) if segments else model(features)
        output.sum().backward()
        model.zero_grad()
    return torch.cuda.max_memory_allocated()


peak_of(0)  # Makes what is made once, such as cuBLAS's workspaces.
kept, computed_again = peak_of(0), peak_of(4)
assert computed_again < kept, "checkpointing keeps fewer activations"
report(kept=kept, computed_again=computed_again)
