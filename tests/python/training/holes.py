"""An exercise of courses: half of the memory is free, and no hole in it is large enough."""

import torch

from report import report

MIB = 1 << 20
tensors = [torch.empty(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(100)]
before = torch.cuda.memory_reserved()
del tensors[::2]
free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
assert free >= 200 * MIB, "every other tensor is free"
large = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
grown = torch.cuda.memory_reserved() - before
assert grown == 64 * MIB, "no hole was large enough"
stats = torch.cuda.memory_stats()
report(free=free, grown=grown, inactive=stats["inactive_split_bytes.all.current"])
