"""One of the two processes is killed: ends.py CONSUMER METHOD, as exchange.py.

The child is the one that ends, once as the receiver of memory, once as its owner.
"""

import json
import os
import pickle
import signal
import sys
from multiprocessing.reduction import ForkingPickler

from side import allocated, raised, start, torch, zeros


def receive(pipe):
    held = pipe.recv()
    pipe.send(held.numel())
    signal.pause()


def own(pipe):
    kept = []
    for expandable in (True, False):
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
        kept += [zeros(30), zeros(30)]
        pipe.send([bytes(ForkingPickler.dumps(tensor)) for tensor in kept[-2:]])
    signal.pause()


def kill(child):
    os.kill(child.pid, signal.SIGKILL)
    child.join(60)


def main():
    consumer, method = sys.argv[1:]
    results = {}
    child, pipe = start(method, consumer, receive)
    mine = zeros(30)
    pipe.send(mine)
    results["received"] = pipe.recv()
    kill(child)
    del mine
    # The killed process cannot report that it has released the memory: PyTorch keeps it.
    results["kept"] = allocated()
    results["goes on"] = zeros(30).numel()

    child, pipe = start(method, consumer, own)
    received = []
    for kind in ("mapped", "whole"):
        first, second = pipe.recv()
        received.append(pickle.loads(first))
        results[kind] = received[-1].numel()
        received.append(second)
    kill(child)
    # Opened tensors stay usable; others cannot be opened any more.
    results["late"] = [raised(lambda late=late: pickle.loads(late)) is not None for late in received[1::2]]
    received.clear()
    results["after"] = zeros(30).numel()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
