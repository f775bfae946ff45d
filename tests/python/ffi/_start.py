"""Loads the simulated driver, PyTorch and vramtape, in this order, and what the scripts ask the library."""

import ctypes
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

# PyDLL, not CDLL, would hold the GIL: the library never asks for it.
library = ctypes.CDLL(harness.LIBRARY)
if "opened-early" in sys.argv:
    # The library is called before PyTorch uses it.
    library.vramtape_get_memory_fraction.restype = ctypes.c_double
    assert library.vramtape_get_memory_fraction(0) == 1.0

harness.use_vramtape()
torch.backends.cudnn.enabled = False

library.vramtape_last_error.restype = ctypes.c_char_p
library.vramtape_error_count.restype = ctypes.c_uint64
library.vramtape_stats.restype = ctypes.c_int64
library.vramtape_snapshot.restype = ctypes.c_int64


def _json(call):
    length = call(None, ctypes.c_size_t(0))
    assert length >= 0, library.vramtape_last_error()
    buffer = ctypes.create_string_buffer(length + 4096)
    call(buffer, ctypes.c_size_t(len(buffer)))
    return json.loads(buffer.value)


def stats(device=0):
    """The statistics, nested as in PyTorch."""
    return _json(lambda buffer, size: library.vramtape_stats(device, buffer, size))


def segments(device=0, pool=(0, 0)):
    """The segments of one pool, or all."""
    ids = [ctypes.c_uint64(part) for part in pool]
    return _json(lambda buffer, size: library.vramtape_snapshot(device, *ids, buffer, size))["segments"]


def no_errors():
    """The library recorded nothing, and its heap holds together."""
    assert library.vramtape_error_count() == 0, library.vramtape_last_error()
    assert library.vramtape_check(0) == 0, library.vramtape_last_error()


class Training:
    """A small model that trains; every step allocates and frees."""

    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, batch=64):
        loss = self.model(torch.randn(batch, 256, device="cuda")).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
