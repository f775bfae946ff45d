"""Ten leaks in one training loop, or the same loop without them; prints what `vramtape.leaks()` finds, as JSON."""

import gc
import json
import os
import sys
from typing import ClassVar

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import load_simcuda

load_simcuda()
import torch
from torch import nn

import vramtape
from vramtape import _live_leaks

IS_LEAKING = sys.argv[1] == "leaking"
STEPS = 30
SIZE = 256 << 10  # Of float32: 1 MiB.


def new(size=SIZE):
    return torch.ones(size, device="cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(256, 256), nn.Linear(256, 8)

    def forward(self, x):
        return self.second(torch.exp(self.first(x)))  # LINE graph


class Cache:
    def __init__(self):
        self.entries = {}


class Convolution:
    workspaces: ClassVar = {}


class Node:
    def __init__(self, tensor, is_cycle):
        self.tensor = tensor
        self.me = self if is_cycle else None

    def __del__(self):
        pass


history, losses, callbacks, errors, registry = [], [], [], [], {}
cache = Cache()
state = {"kv": None}


def keep_in_list(step):
    tensor = new()  # LINE list
    if IS_LEAKING:
        history.append(tensor)


def keep_in_cache(step):
    cache.entries[step if IS_LEAKING else 0] = new()  # LINE cache


def keep_graph(net):
    loss = net(torch.ones(1024, 256, device="cuda")).sum()
    losses.append(loss if IS_LEAKING else loss.item())


def add_hook(net):
    seen = []

    def hook(module, inputs, output):
        seen[:] = [*(seen if IS_LEAKING else []), new()]  # LINE hook

    net.second.register_forward_hook(hook)


def keep_in_closure(step):
    tensor = new()  # LINE closure
    callbacks[:] = [*(callbacks if IS_LEAKING else []), lambda: tensor]


def fail():
    scratch = new()  # LINE traceback
    raise ValueError(scratch.shape)


def keep_exception(step):
    try:
        fail()
    except ValueError as error:
        errors.append(error if IS_LEAKING else str(error))


def grow_kv_cache(step):
    token = torch.ones(SIZE, device="cuda")  # LINE token
    is_first = state["kv"] is None or not IS_LEAKING
    state["kv"] = token if is_first else torch.cat([state["kv"], token])  # LINE kv


def make_workspace(step):
    shape = SIZE + step * 1024 if IS_LEAKING else SIZE
    if shape not in Convolution.workspaces:
        Convolution.workspaces[shape] = new(shape)  # LINE workspace


def register(step):
    registry[f"step {step}" if IS_LEAKING else "last"] = new()  # LINE dict


def make_cycle(step):
    Node(new(), IS_LEAKING)  # LINE cycle


def main():
    if IS_LEAKING:
        gc.disable()
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    add_hook(net)
    for step in range(STEPS):
        vramtape.step(step)
        keep_graph(net)
        net(torch.ones(64, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        for leak in (keep_in_list, keep_in_cache, keep_in_closure, keep_exception, grow_kv_cache):
            leak(step)
        for leak in (make_workspace, register, make_cycle):
            leak(step)
    print(json.dumps(vramtape.leaks()))


_live_leaks.SECONDS_MAX = 120.0  # The machine may be busy with other tests.
vramtape.install()
main()
