"""Pins host memory step by step, prints what PyTorch counts of it, and ends as its argument says."""

import json
import sys

import torch

import vramtape

MIB = 1 << 20
# The line that uses them does not name the memory.
OPTIONS = {"dtype": torch.uint8, "pin_memory": True}


def pinned(size):
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def release():
    """What is free and kept goes back to the driver."""
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()
    else:
        torch._C._host_emptyCache()


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return torch.zeros(12 * MIB, dtype=torch.uint8)


how = sys.argv[1]
kept = [torch.empty(1, device="cuda")]
if how != "unpinned":
    for step in range(1, 5):
        vramtape.step(step)
        batch = pinned(3 * MIB)  # A block of 4 MiB.
        batch.cuda(non_blocking=True)
        del batch
        kept.append(pinned(MIB))
    vramtape.mark("trained")
if how == "released":
    torch.cuda.synchronize()
    release()
    vramtape.step(5)
print(json.dumps(torch.cuda.host_memory_stats_as_nested_dict()), flush=True)
if how == "registered":
    page = torch.empty(32 * MIB, dtype=torch.uint8)
    assert int(torch.cuda.cudart().cudaHostRegister(page.data_ptr(), 32 * MIB, 0)) == 0
if how == "waits":
    sys.stdin.read()
if how == "empty":
    pinned(9 * MIB)
if how == "indirect":
    torch.empty(9 * MIB, **OPTIONS)
if how == "pin_memory":
    torch.zeros(9 * MIB, dtype=torch.uint8).pin_memory()
if how == "loader":
    for _ in torch.utils.data.DataLoader(Data(), pin_memory=True):
        pass
if how == "thread":
    for _ in torch.utils.data.DataLoader(Data(), pin_memory=True, num_workers=1):
        pass
if how == "device":
    torch.empty(1 << 50, device="cuda")
