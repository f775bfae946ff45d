"""record_stream with events that lag: memory is reused only after its event is done."""

import common

common.load()

import torch

SIZE = 4 * common.MIB
LAG = 5  # test_simcuda.py sets VRAMTAPE_SIM_EVENT_LAG to this

main, side = torch.cuda.current_stream(), torch.cuda.Stream()


def on_side():
    with torch.cuda.stream(side):
        return torch.empty(SIZE, dtype=torch.uint8, device="cuda")


def used_by_main(tensor):
    main.wait_stream(side)
    tensor.add_(1)
    tensor.record_stream(main)


first = on_side()
address = first.data_ptr()
del first
assert on_side().data_ptr() == address, "freed on its own stream: reused at once"

first = on_side()
used_by_main(first)
del first
held = [on_side() for _ in range(LAG)]
assert address not in [tensor.data_ptr() for tensor in held], "the event of the other stream is not done"
assert on_side().data_ptr() == address, f"done after {LAG} queries"

del held
first = on_side()
address = first.data_ptr()
used_by_main(first)
del first
assert on_side().data_ptr() != address
torch.cuda.synchronize()
assert on_side().data_ptr() == address, "synchronising the device completes its events"

event = torch.cuda.Event()
assert event.query(), "an event that was never recorded is done"
event.record()
assert [event.query() for _ in range(LAG + 2)] == [False] * LAG + [True] * 2
event.record()
assert not event.query()
event.synchronize()
assert event.query()

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
end.synchronize()
assert start.elapsed_time(end) == 1

streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
assert len({stream.cuda_stream for stream in streams}) == 2
assert [stream.priority for stream in streams] == [0, -1]

model = common.gpt().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    with torch.cuda.stream(side):
        tokens = torch.zeros(2, 128, dtype=torch.long, device="cuda")
    main.wait_stream(side)
    tokens.record_stream(main)
    model(tokens).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    common.check_accounts()

del model, optimizer, tokens
common.release_everything()
assert common.used_bytes() == 0, common.used_bytes()
