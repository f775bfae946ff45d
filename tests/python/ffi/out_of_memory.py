"""Out of memory is torch.OutOfMemoryError with PyTorch's sentence, on any thread, and training goes on after it."""

import re

from _start import Training, stats, torch

SENTENCE = re.compile(
    r"CUDA out of memory\. Tried to allocate (\S+ \S+)\. "
    r"GPU 0 has a total capacity of 1024\.00 MiB of which .* is free\. "
    r".*Of the allocated memory .* is allocated by PyTorch, and .* is reserved by PyTorch but unallocated\. "
    r"If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
)


def expect(size, allocate):
    try:
        allocate()
    except torch.OutOfMemoryError as error:
        assert type(error) is torch.OutOfMemoryError, type(error)
        found = SENTENCE.match(str(error))
        assert found and found.group(1) == size, str(error)
        # Ours comes behind, on a line of its own.
        ours = (
            r"\nvramtape: (capacity|huge-request): .*(\nvramtape: pinning set: .*)?"
            r"\nvramtape: to know more: vramtape explain "
        )
        assert re.search(ours, str(error)), str(error)
    else:
        raise AssertionError("no torch.OutOfMemoryError")


class AllocatesTooMuchInBackward(torch.autograd.Function):
    """Autograd runs this on a thread of its own, which has no Python frame below it."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return torch.empty(3 << 30, dtype=torch.uint8, device="cuda")


training = Training()
training.step()
expect("2.00 GiB", lambda: torch.empty(2 << 30, dtype=torch.uint8, device="cuda"))
training.step()

hoard = []
expect("64.00 MiB", lambda: [hoard.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda")) for _ in range(99)])
assert 8 <= len(hoard) < 16, len(hoard)
expect("64.00 MiB", lambda: torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
hoard.clear()

x = torch.ones(8, device="cuda", requires_grad=True)
expect("3.00 GiB", lambda: AllocatesTooMuchInBackward.apply(x).sum().backward())
for _ in range(3):
    training.step()
assert stats()["num_ooms"] == 4, stats()["num_ooms"]
# One huge request that only an emptied cache can serve: the retry chain works on its own.
torch.empty(900 << 20, dtype=torch.uint8, device="cuda")
assert stats()["num_ooms"] == 4
