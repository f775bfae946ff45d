"""A block that another stream uses is not used again before that stream is done, though no hook was set by Python."""

import sys

from _start import no_errors, segments, stats, torch

COUNT = 1_000_000
side = torch.cuda.Stream()


def block():
    return torch.empty(COUNT, device="cuda")


# Without record_stream the memory comes back at once: the test can fail.
first = block()
address = first.data_ptr()
del first
first = block()
assert first.data_ptr() == address

first.record_stream(side)
first.record_stream(torch.cuda.current_stream())  # Its own stream: no reason to wait.
del first
if sys.argv[1:] == ["expandable"]:
    assert all(segment["is_expandable"] for segment in segments())
states = [part["state"] for segment in segments() for part in segment["blocks"] if part["address"] == address]
assert states == ["active_pending_free"], states
second = block()
assert second.data_ptr() != address, "used again while the other stream may still read it"
# The event is done after a few questions; then the block is free again.
later = [second]
for _ in range(9):
    later.append(block())
assert address in [tensor.data_ptr() for tensor in later], "never used again"
assert stats()["active"]["all"]["current"] == len(later)

# Bytes that are not ours are named, not followed.
no_errors()
