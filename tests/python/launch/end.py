"""Allocates on the GPU, prints its process id, and ends as its argument says."""

import ctypes
import os
import resource
import signal
import sys
import time

import torch

how = sys.argv[1]
if how == "ignores":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = [torch.empty(1 << 20, device="cuda") for _ in range(7)]
print(os.getpid(), flush=True)


def send(one):
    os.kill(os.getpid(), one)
    time.sleep(60)


def on_signal(*_):
    sys.exit(3)


if how == "raise":
    raise ValueError("the first line\nand another")
if how == "memory":
    torch.empty(1 << 50, device="cuda")
if how == "exit":
    os._exit(4)
if how == "exec":
    os.execv(sys.executable, [sys.executable, "-c", "print('another program')"])
if how in ("SIGTERM", "SIGHUP", "SIGKILL"):
    send(getattr(signal, how))
if how == "in-call":  # Of C, with Python's lock: no handler of Python's would run.
    ctypes.PyDLL(None).sleep(60)
if how == "handler":
    signal.signal(signal.SIGTERM, on_signal)
    send(signal.SIGTERM)
if how == "ignores":
    os.kill(os.getpid(), signal.SIGTERM)
if how == "child":
    child = os.fork()
    if child == 0:
        time.sleep(60)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    held += [torch.empty(1 << 20, device="cuda")]
if how == "small-disk":
    resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 10, resource.RLIM_INFINITY))
    for index in range(40000):
        torch.empty(1 << (10 + index % 9), device="cuda")
    time.sleep(1.5)  # The tape's thread writes once a second.
    for _ in range(1000):
        torch.empty(1 << 20, device="cuda")
if how == "part":  # As tape_max leaves it.
    with open("run.vtape.1", "w", encoding="utf-8"):
        pass
