"""CUDA IPC: a tensor to a spawned process of the same route and another one back, from segments of either kind.

The spawned process imports this before its route is active, so torch comes later.
"""

import multiprocessing

SECONDS_MAX = 120
# What PyTorch says, and we, where a container does not let a process take file descriptors from another.
NOT_ALLOWED = "pidfd_"


def run(route, simulated):
    import torch

    if route == "pluggable":
        return refused(torch)
    kind_before = torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=answer, args=(route, simulated, there))
    child.start()
    there.close()  # So that its end is heard here.
    try:
        return {kind: exchange(torch, here, kind, simulated) for kind in ("segment", "pages")}
    finally:
        here.close()
        child.join(SECONDS_MAX)
        child.kill()
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{kind_before}")


def refused(torch):
    """Route 1 says what to do instead."""
    try:
        torch.zeros(1, device="cuda").untyped_storage()._share_cuda_()
    except RuntimeError as error:
        return {"skipped": str(error).splitlines()[0]}
    raise AssertionError("a tensor is shared without the bridge")


def exchange(torch, pipe, kind, simulated):
    """Sends one, gets another, and sees both memories come back."""
    torch.cuda.memory._set_allocator_settings(f"expandable_segments:{kind == 'pages'}")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    elements = 1 << (16 if simulated else 24)
    mine = torch.arange(elements, dtype=torch.float32, device="cuda")
    expected = float(mine.double().sum())
    pipe.send((kind, mine))
    error, seen = received(pipe)
    if error is not None:
        if NOT_ALLOWED in error:
            return f"not allowed here: {error}"
        raise AssertionError(f"{kind}: the other process says: {error}")
    _, yours = received(pipe)
    if not simulated:
        assert seen == expected, f"{kind}: the other process sees {seen}, not {expected}"
        assert bool((mine == -1).all()), f"{kind}: what the other process wrote is not there"
        assert bool((yours == torch.arange(elements, device="cuda") + 1).all()), f"{kind}: its tensor came changed"
    assert torch.cuda.memory_allocated() - before == mine.nbytes, f"{kind}: the other's memory counts as ours"
    del mine, yours
    pipe.send(None)
    received(pipe)
    torch.cuda.ipc_collect()
    left = torch.cuda.memory_allocated() - before
    assert left == 0, f"{kind}: {left} bytes that were shared did not come back"
    return "ok"


def received(pipe):
    if not pipe.poll(SECONDS_MAX):
        raise AssertionError("the other process does not answer")
    return pipe.recv()


def answer(route, simulated, pipe):
    """The spawned process: receives a tensor, overwrites it, sends another, until nothing more comes."""
    from session import start

    torch = start(route, simulated)
    while True:
        try:
            kind, yours = pipe.recv()
        except EOFError:
            return
        except RuntimeError as error:
            pipe.send((str(error).splitlines()[0], None))
            continue
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{kind == 'pages'}")
        mine = yours + 1
        seen = float(yours.double().sum())
        yours.fill_(-1)
        torch.cuda.synchronize()
        pipe.send((None, seen))
        pipe.send((None, mine))
        pipe.recv()
        del yours, mine
        torch.cuda.ipc_collect()
        pipe.send((None, None))
