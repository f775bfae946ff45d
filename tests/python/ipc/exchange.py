"""A process sends CUDA tensors and events to another: exchange.py CONSUMER METHOD.

METHOD is multiprocessing's, CONSUMER the child's allocator; our own is in the environment. What both see goes to the
last line, as JSON: it has to be the same under any two allocators.
"""

import ctypes
import json
import sys

from side import MIB, allocated, raised, start, torch, zeros


def is_device_memory(address):
    found = ctypes.c_uint32()
    driver = ctypes.CDLL("libcuda.so.1")
    return driver.cuPointerGetAttribute(ctypes.byref(found), 2, ctypes.c_uint64(address)) == 0


def consume(pipe):
    """Carries out each command and sends its results."""
    held = []
    while True:
        verb, *arguments = pipe.recv()
        if verb == "hold":
            first, second, view = held = arguments
            pipe.send(
                {
                    "kinds": [(list(it.shape), str(it.dtype), str(it.device), it.storage_offset()) for it in held],
                    "distance": second.data_ptr() - first.data_ptr(),
                    "view": view.data_ptr() - second.data_ptr(),
                    "there": [is_device_memory(it.data_ptr() + it.nbytes - 1) for it in held],
                    "ours": torch.cuda.memory_allocated(),
                    "error": raised(lambda first=first: pipe.send(first)),
                    "copied": first.copy_(view[:1].cpu()[0]).numel(),
                }
            )
        elif verb == "drop":
            addresses = [it.data_ptr() for it in held]
            first = second = view = arguments = None
            held.clear()
            torch.cuda.empty_cache()
            pipe.send([is_device_memory(address) for address in addresses])
        elif verb == "event":
            event = torch.cuda.Event.from_ipc_handle(torch.device("cuda:0"), arguments[0])
            event.wait()
            event.synchronize()
            pipe.send(event.query())
        else:
            return


def shared(tensor):
    """The description of the tensor in a share, without the parts that differ each time."""
    device, handle, size, offset, _, _, _, sync = tensor.untyped_storage()._share_cuda_()
    return [device, handle[0], chr(handle[1]), len(handle), size, offset, sync]


def exchange(ask, expandable):
    torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
    torch.cuda.empty_cache()
    before = allocated()
    # Two that lie together, and a view of one.
    first, second = zeros(11), zeros(5)
    distance = second.data_ptr() - first.data_ptr()
    seen = ask("hold", first, second, second[MIB:])
    # Each handle of mapped memory is mapped by itself.
    distance_there = seen.pop("distance")
    # Freed here first, memory stays while it is held there.
    del first, second
    held = allocated() - before
    closed = ask("drop")
    after = allocated() - before
    return {
        "seen": seen,
        "together": expandable or distance_there == distance,
        "held": held,
        "closed": closed,
        "after": after,
        "shared": shared(zeros(3)),
        "on the host": raised(lambda: torch.zeros(1).untyped_storage()._share_cuda_()),
    }


def room(ask):
    """No room but what the other process let go of: the allocator asks PyTorch for that before it gives up."""
    free = torch.cuda.mem_get_info()[0] // MIB
    large = zeros(free // 2)
    ask("hold", large, large, large)
    del large
    ask("drop")
    return zeros(free * 3 // 4).numel() > free // 2 * MIB


def main():
    consumer, method = sys.argv[1:]
    child, pipe = start(method, consumer, consume)

    def ask(*words):
        pipe.send(words)
        return pipe.recv()

    # In this order: a tensor that is shared and never received keeps its segment, and a segment of one piece serves
    # either.
    results = {f"expandable {expandable}": exchange(ask, expandable) for expandable in (True, False)}
    event = torch.cuda.Event(interprocess=True)
    event.record()
    results["event"] = ask("event", event.ipc_handle())
    results["room"] = room(ask)
    pipe.send(("end",))
    child.join(60)
    results["exit"] = child.exitcode
    print(json.dumps(results))


if __name__ == "__main__":
    main()
