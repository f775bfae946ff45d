"""Sends tensors of the default pool to another process and back."""

import torch
import torch.multiprocessing as mp


def child(queue, done):
    tensors = queue.get()
    print([tuple(tensor.shape) for tensor in tensors], flush=True)
    assert [tensor.device.type for tensor in tensors] == ["cuda", "cuda"]
    del tensors
    torch.cuda.synchronize()
    done.put(True)


if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, done))
    process.start()
    whole = torch.zeros(9 << 20, dtype=torch.uint8, device="cuda")
    queue.put([whole, whole[1 << 20 : 3 << 20]])
    assert done.get(timeout=120)
    process.join(60)
    assert process.exitcode == 0, process.exitcode
    del whole
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0, torch.cuda.memory_reserved()
