"""NCCL on memory of the allocator: the collectives of one rank, training in DDP, and a pool that NCCL registers."""

import hashlib

import torch
import torch.distributed as distributed

import training


def run(route, simulated):
    if route == "pluggable":
        return {"skipped": "pools need the bridge"}
    if simulated:
        return {"skipped": "NCCL needs a GPU"}
    torch.cuda.set_device(0)
    store = distributed.HashStore()
    distributed.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
    try:
        digest = hashlib.sha256()
        collectives(digest)
        train(digest)
        registered = register(digest)
    finally:
        torch.cuda.synchronize()
        distributed.destroy_process_group()
    return {"digest": digest.hexdigest(), "registered": registered}


def collectives(digest):
    """Blocks of many sizes come and go while NCCL's own stream uses them."""
    torch.manual_seed(11)
    for number in range(200):
        mine = torch.randn(1 + (number * 7919) % (4 << 20), device="cuda")
        works = [distributed.all_reduce(mine, async_op=True)]
        gathered = torch.empty_like(mine)
        works.append(distributed.all_gather_into_tensor(gathered, mine, async_op=True))
        scattered = torch.empty_like(mine)
        works.append(distributed.reduce_scatter_tensor(scattered, gathered, async_op=True))
        for work in works:
            work.wait()
        if number % 20 == 0:
            digest.update(scattered.cpu().numpy().tobytes())


def train(digest):
    torch.manual_seed(12)
    model = torch.nn.parallel.DistributedDataParallel(training.Gpt(4, 512, 8).cuda(), device_ids=[0])
    lengths = [64 + 37 * (step % 7) for step in range(20)]
    tokens = [torch.randint(0, 8192, (8, length), device="cuda") for length in lengths]
    training.train(model, [(batch, batch.roll(-1, 1)) for batch in tokens], digest)


def register(digest):
    """Whether NCCL gave memory for a pool, and took it as registered."""
    backend = distributed.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))
    if not backend.supports_tensor_alloc(torch.device("cuda:0")):
        return False
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        held = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    backend.register_mem_pool(pool)
    distributed.all_reduce(held)
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    digest.update(held.cpu().numpy().tobytes())
    del held, pool
    return True
