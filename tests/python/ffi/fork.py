"""Children of a fork neither hang nor disturb the parent, while other threads allocate and the parent trains on."""

import ctypes
import gc
import os
import signal
import threading

from _start import Training, library, no_errors, stats, torch

training = Training()
training.step()
shared = [torch.empty(1 << 20, device="cuda") for _ in range(4)]
stop = threading.Event()


def churn():
    """Allocates past PyTorch, whose own mutex a fork leaves locked in the child (docs/limits.md)."""
    device, stream, size = 0, None, ctypes.c_size_t(400_000)
    while not stop.is_set():
        block = ctypes.c_void_p(library.vramtape_malloc(size, device, stream))
        library.vramtape_record_stream(block, ctypes.c_void_p(side.cuda_stream))
        library.vramtape_free(block, size, device, stream)


library.vramtape_malloc.restype = ctypes.c_void_p
library.vramtape_record_stream.restype = library.vramtape_free.restype = None
side = torch.cuda.Stream()
churner = threading.Thread(target=churn, daemon=True)
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
