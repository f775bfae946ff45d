"""Settings that PyTorch would refuse are refused with its exception; those it accepts reach the allocator."""

import sys

from _start import stats, torch


def refused(kind, *parts):
    for _ in range(2):  # The second allocation says the same.
        try:
            torch.empty(1, device="cuda")
        except Exception as error:
            assert type(error) is kind, (type(error), error)
            assert all(part in str(error) for part in parts), str(error)
        else:
            raise AssertionError("accepted")


case = sys.argv[1]
if case == "bad-pytorch":
    refused(ValueError, "max_split_size_mb too small, must be >= 20", "PYTORCH_CUDA_ALLOC_CONF")
elif case == "bad-vramtape":
    refused(ValueError, "recor", "VRAMTAPE_CONF", "did you mean record?")
elif case == "good":
    torch.empty(1, device="cuda")
    assert stats()["max_split_size"] == 64 << 20
    # The hook is set by now, though Python never set it.
    torch.cuda.set_per_process_memory_fraction(0.001)
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "allowed" in str(error), error
    else:
        raise AssertionError("the memory fraction did not reach the allocator")
    torch.cuda.set_per_process_memory_fraction(1.0)
    held = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    del held
    before = stats()["reserved_bytes"]["all"]["current"]
    torch.cuda.empty_cache()
    assert stats()["reserved_bytes"]["all"]["current"] < before
