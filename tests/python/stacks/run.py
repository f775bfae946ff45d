"""Allocates from known lines of code: `run.py plain|threads|fork`. The settings ask for a tape."""

import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

harness.use_vramtape()
MIB = 1 << 20


class Model:
    def make(self, size):
        return torch.empty(size, dtype=torch.uint8, device="cuda")  # LINE make

    def drop(self, tensors):
        tensors.clear()  # LINE drop


def deep(depth, then):
    return then() if depth <= 1 else deep(depth - 1, then)


def plain():
    model = Model()
    tensors = [deep(20, lambda: model.make(20 * MIB)) for _ in range(3)]
    small = [model.make(512) for _ in range(200)]
    model.drop(tensors)
    model.drop(small)
    torch.cuda.empty_cache()


def threads():
    """New stacks all the time, with a thread that computes and never gives Python's lock up of its own accord."""
    stop = threading.Event()

    def compute():
        number = 0
        while not stop.is_set():
            number += 1

    def allocate(seed):
        space = {"Model": Model}
        for number in range(40):
            source = f"def made_{seed}_{number}():\n    return Model().make({seed + 1} << 20)"
            exec(compile(source, f"<{seed} {number}>", "exec"), space)
            space[f"made_{seed}_{number}"]()

    busy = threading.Thread(target=compute)
    busy.start()
    many = [threading.Thread(target=allocate, args=(seed,)) for seed in range(3)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    stop.set()
    busy.join()


def fork():
    kept = Model().make(MIB)
    pid = os.fork()
    if pid == 0:
        del kept  # Bookkeeping in the child's own copy; nothing is recorded there.
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    Model().make(2 * MIB)


{"plain": plain, "threads": threads, "fork": fork}[sys.argv[1]]()
