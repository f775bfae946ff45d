"""A process with the bridge forks before CUDA is used: the child has an allocator of its own, and so has the parent."""

import os

import vramtape

vramtape.install(route="bridge")
import torch

child = os.fork()
if child == 0:
    tensor = torch.empty(1000, device="cuda")
    os._exit(0 if torch.cuda.memory_allocated() == 4096 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
tensor = torch.empty(3000, device="cuda")
assert torch.cuda.memory_allocated() == 12288

child = os.fork()
if child == 0:  # CUDA does not survive a fork in use; what dies there must not take the process with it.
    del tensor
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.cuda.memory_allocated() == 12288
