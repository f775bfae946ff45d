"""Runs one workload: record.py FUNCTION native SNAPSHOT.pickle | record.py FUNCTION vramtape

Under `native` PyTorch's own allocator serves and its history is dumped; under `vramtape` ours serves and writes the
tape that VRAMTAPE_CONF names. Both start from an initialised device without memory.
"""

import ctypes
import gc
import os
import pickle
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

function, side = sys.argv[1], sys.argv[2]
if side == "vramtape":
    harness.use_vramtape()

import workloads

torch.backends.cudnn.enabled = False
torch.autograd.set_multithreading_enabled(False)  # Two threads that free at once have no order to compare.
torch.cuda.init()
if side == "native":
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=3_000_000)
alive = getattr(workloads, function)()
gc.collect()
if side == "vramtape":  # Frees at the end of the process are on no snapshot.
    assert ctypes.CDLL(harness.LIBRARY).vramtape_tape_stop() == 0
if side == "native":
    with open(sys.argv[3], "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
