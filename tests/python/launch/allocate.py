"""Allocates on the GPU as often as its argument says, and then ends in one of several ways."""

import os
import signal
import sys
import warnings

import torch

count = int(sys.argv[1])
how = sys.argv[2] if len(sys.argv) > 2 else ""
if how == "installs":
    import vramtape

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vramtape.install() == vramtape.active_route() is not None
held = [torch.empty(1 << 20, device="cuda") for _ in range(count)]
print(torch.cuda.memory.get_allocator_backend(), os.getpid(), len(held), flush=True)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "interrupted":
    # A background process ignores Ctrl-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)
