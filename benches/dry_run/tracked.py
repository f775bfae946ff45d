"""Runs a program under PyTorch's MemTracker in FakeTensorMode, on the simulated driver.

The tracker follows FakeTensors, whose backward pass requires a GPU: it has the simulated one. The changes that a user
would make to the program are the lines of `changed`, made from outside here.
"""

import inspect
import os
import runpy
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "python"))
import harness

harness.load_simcuda()
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._device import DeviceContext

torch.empty(1, device="cuda")
tracker = MemTracker()


def total_bytes(moment):
    """The memory of the first GPU, "current" or at the "peak"."""
    return tracker.get_tracker_snapshot(moment).get(torch.device("cuda:0"), {}).get("Total", 0)


def changed(connect=dist.init_process_group):
    torch.cuda.memory_allocated = lambda: total_bytes("current")
    torch.cuda.max_memory_allocated = lambda: total_bytes("peak")
    torch.cuda.reset_peak_memory_stats = lambda: None  # It forgets modules that are alive; later peaks are higher here.
    torch.cuda.memory._record_memory_history = lambda **_: None
    torch.Tensor.item = lambda tensor: 1.0
    torch.nn.Module.to = torch.nn.Module.to_empty = lambda module, *_, **__: module
    DeviceContext.__init__ = lambda self, _, make=DeviceContext.__init__: make(self, torch.device("cuda:0"))
    dist.init_process_group = lambda _: connect("fake", FakeStore(), rank=0, world_size=int(os.environ["WORLD_SIZE"]))
    torch.nn.modules.module.register_module_forward_pre_hook(forget_last_step)


called = []


def forget_last_step(module, _):
    """The tracker refuses a second call of a module that it knows."""
    if not called:
        called.append(module)
    elif module is called[0]:
        tracker.reset_mod_stats()


changed()
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
if os.path.basename(sys.argv[0]) in ("sft.py", "nf4.py", "fsdp.py"):
    import qwen35

    qwen35.ORIGIN = torch.device("cuda:0")
body = [inspect.getsource(function) for function in (changed, forget_last_step, total_bytes)]
print("FIGURE changed_lines", sum(len(text.strip().splitlines()) - 1 for text in body))
with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"), tracker:
    runpy.run_path(sys.argv[0], run_name="__main__")
