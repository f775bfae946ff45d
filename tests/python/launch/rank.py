"""One rank of a job: allocates on the GPU, and meets the others."""

import os
import sys

import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
held = torch.empty(1 << 20, device="cuda")
torch.distributed.barrier()
# In one call: ranks share the stream.
sys.stdout.write(f"rank {os.environ['RANK']} {os.getpid()} {held.numel()}\n")
torch.distributed.destroy_process_group()
