"""Observes PyTorch's own allocator during one workload of ../parity: run.py FUNCTION SNAPSHOT.pickle REPORT.json

PyTorch's history runs beside the observer, so that both tell of the same run. VRAMTAPE_CONF names the tape.
"""

import gc
import json
import os
import pickle
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../parity"), os.path.join(HERE, "../../../python")]

import harness

harness.load_simcuda()
os.environ.setdefault("VRAMTAPE_LIBRARY", harness.LIBRARY)

import torch

import vramtape

function, snapshot, report = sys.argv[1:]
before = [] if function != "mid_run" else [torch.empty(3 << 20, device="cuda") for _ in range(5)]
if before:
    del before[1::2]
assert vramtape.observe() == "observe"
assert vramtape.observe() == "observe", "twice is once"
assert torch.cuda.memory.get_allocator_backend() == "native", "nothing is replaced"

import workloads

torch.backends.cudnn.enabled = False
torch.autograd.set_multithreading_enabled(False)
torch.cuda.init()
torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=3_000_000)
alive = getattr(workloads, "streams" if before else function)()
gc.collect()
peak = torch.cuda.max_memory_reserved()
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_reserved() == torch.cuda.memory_reserved()
torch.cuda.set_per_process_memory_fraction(1.0)
stats = torch.cuda.memory_stats()
with open(snapshot, "wb") as file:
    pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
assert vramtape._runtime.call("tape_stop") == 0
with open(report, "w") as file:
    json.dump({"peak_reserved_bytes": peak, "allocated_bytes": stats["allocated_bytes.all.current"]}, file)
