"""A program with children of every kind that Python knows; prints the process ids of those that use the GPU."""

import multiprocessing
import os
import subprocess
import sys

import torch
from torch.utils.data import DataLoader


def allocate(how):
    held = torch.empty(1 << 20, device="cuda")
    print(how, os.getpid(), held.numel(), flush=True)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        assert torch.utils.data.get_worker_info() is not None
        return torch.full((4,), at)


def load(start):
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=start)
    assert sum(int(batch.sum()) for batch in loader) == 4 * sum(range(8))


if __name__ == "__main__":
    if sys.argv[1:] == ["alone"]:
        allocate("subprocess")
        sys.exit()
    load("fork")  # Before this process uses CUDA, as fork demands of those that use it themselves.
    for start in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(start).Process(target=allocate, args=(start,))
        child.start()
        child.join()
        assert child.exitcode == 0, (start, child.exitcode)
    subprocess.run([sys.executable, __file__, "alone"], check=True)
    untouched = "import sys; sys.exit('vramtape' in sys.modules)"
    subprocess.run([sys.executable, "-c", untouched], check=True)
    subprocess.run(["sh", "-c", 'test -z "$LD_PRELOAD"'], check=True)
    allocate("parent")
    load("fork")
    load("spawn")
