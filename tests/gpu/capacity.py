"""Out of memory at the device's true capacity, and life after it."""

import torch

import training

GIB = 1 << 30


def run(simulated):
    torch.cuda.empty_cache()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    before = torch.cuda.memory_reserved()
    piece = GIB
    held = []
    try:
        while True:
            held.append(torch.empty(piece, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        message = str(error)
    taken_bytes = len(held) * piece
    assert message.startswith("CUDA out of memory. Tried to allocate 1024.00 MiB"), message
    assert taken_bytes + 2 * piece > free_bytes, f"gave up at {taken_bytes} of {free_bytes} bytes"
    del held[1::2]  # Holes, none of which holds what is asked for next.
    try:
        large = torch.empty(3 * GIB, dtype=torch.uint8, device="cuda")
        holes_were_enough = True
        del large
    except torch.OutOfMemoryError:
        holes_were_enough = False
    held.clear()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before, "memory did not come back after the failure"
    again = training.run(True)  # It works as before.
    stats = torch.cuda.memory_stats()
    return {
        "total_bytes": total_bytes,
        "taken_bytes": taken_bytes,
        "holes_were_enough": holes_were_enough,
        "num_ooms": stats["num_ooms"],
        "digest_afterwards": again["digest"],
    }
