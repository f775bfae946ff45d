"""Shared by both processes of a test: the simulated driver, the allocator of their side, torch.

A spawned child imports its parent's main module, and this with it: the parent says in the environment which allocator
is the child's.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

MIB = 1 << 20
ALLOCATOR = "IPC_TEST_ALLOCATOR"

harness.load_simcuda()
if os.environ[ALLOCATOR] == "bridge":
    import vramtape

    assert vramtape.install() == "bridge"
import torch
import torch.multiprocessing as multiprocessing


def allocated():
    """MiB that this process holds, after PyTorch looked what others let go of."""
    torch.cuda.ipc_collect()
    return torch.cuda.memory_allocated() // MIB


def zeros(mib):
    return torch.zeros(mib * MIB, dtype=torch.uint8, device="cuda")


def raised(body):
    """The first line of the error."""
    try:
        body()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def start(method, consumer, function):
    """A child under the allocator `consumer`, and our end of a pipe to it."""
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    ours = os.environ[ALLOCATOR]
    os.environ[ALLOCATOR] = consumer
    child = context.Process(target=function, args=(there,))
    child.start()
    os.environ[ALLOCATOR] = ours
    return child, here
