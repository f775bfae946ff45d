"""Trains as `train.py` does and is killed after ten steps. A small ring then has the last records only."""

import json
import os
import runpy
import signal

from vramtape import _runtime

_runtime.use_simcuda()
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import vramtape

vramtape.install(route="bridge")
steps = []


def step_ended(*_):
    steps.append(torch.cuda.memory_reserved())
    if len(steps) == 10:
        torch.cuda.synchronize()
        print(json.dumps({"pid": os.getpid(), "reserved_bytes": steps[-1]}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


register_optimizer_step_post_hook(step_ended)
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py"))
