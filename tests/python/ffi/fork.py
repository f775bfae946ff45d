"""Children of a fork neither hang nor disturb the parent, while other threads allocate and the parent trains on."""

import gc
import os
import signal
import threading

from _start import Training, no_errors, stats, torch

training = Training()
training.step()
shared = [torch.empty(1 << 20, device="cuda") for _ in range(4)]
stop = threading.Event()


def churn():
    while not stop.is_set():
        torch.empty(100_000, device="cuda").record_stream(torch.cuda.default_stream())


churner = threading.Thread(target=churn)
churner.start()
for _ in range(4):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # A child that hangs is killed, and fails the test.
        shared.clear()
        gc.collect()
        stats()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.set()
churner.join()


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((256,), float(index))


loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork")
for batch in loader:
    batch.cuda()
    training.step()
assert all(tensor.numel() == 1 << 20 for tensor in shared)
assert stats()["allocation"]["all"]["current"] >= 4
no_errors()
