"""Two devices, each with its own memory, streams and current context."""

import common

common.load()

import torch

CAPACITY = 1024 * common.MIB  # test_simcuda.py sets VRAMTAPE_SIM_MEMORY to this

assert torch.cuda.device_count() == 2
assert torch.cuda.can_device_access_peer(0, 1)
on = [torch.empty(64 * common.MIB, dtype=torch.uint8, device=f"cuda:{device}") for device in (0, 1)]
on.append(torch.empty(128 * common.MIB, dtype=torch.uint8, device="cuda:1"))
assert [torch.cuda.memory_allocated(device) // common.MIB for device in (0, 1)] == [64, 192]
for device in (0, 1):
    common.check_accounts(device)

on[0].copy_(on[1])
assert on[1].to("cuda:0").get_device() == 0

with torch.cuda.device(1):
    stream = torch.cuda.Stream()
    assert stream.device.index == 1 and torch.cuda.current_device() == 1
    with torch.cuda.stream(stream):
        on[1].add_(1)
    event = torch.cuda.Event()
    event.record(stream)
torch.cuda.current_stream(0).wait_event(event)
torch.cuda.synchronize(1)

model = common.gpt().to("cuda:1")
for _ in range(2):
    model(torch.zeros(2, 64, dtype=torch.long, device="cuda:1")).backward()
try:
    torch.empty(CAPACITY, dtype=torch.uint8, device="cuda:1")
    raise AssertionError("the device is in use")
except torch.OutOfMemoryError as error:
    assert "GPU 1 has a total capacity of 1024.00 MiB" in str(error) or "1.00 GiB" in str(error), error
for device in (0, 1):
    common.check_accounts(device)
names = [torch.cuda.get_device_properties(device).uuid for device in (0, 1)]
assert names[0] != names[1]

del model, on
common.release_everything()
for device in (0, 1):
    torch.cuda.synchronize(device)
torch.cuda.empty_cache()
assert [common.used_bytes(device) for device in (0, 1)] == [0, 0]
