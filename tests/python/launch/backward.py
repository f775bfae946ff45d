"""Ends right after a backward, before autograd's thread has finished, which runs only on an idle processor."""

import os
import sys

import torch


def backward():
    x = torch.ones(1000, 1000, device="cuda", requires_grad=True)
    (x @ x).sum().backward()


os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
backward()
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/comm") as name:
        if name.read().startswith("pt_autograd_"):
            os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
sys.setswitchinterval(1000)
backward()
