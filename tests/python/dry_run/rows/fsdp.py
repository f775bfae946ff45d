"""A fine-tuning step of Qwen3.5 0.8B under FSDP.

The published programs are `verification/qwen_fsdp_sft_memory_worker.py` (version 1, all weights) and
`qwen_fsdp2_lora_sft_memory_worker.py` (version 2, adapters) of FanBB2333/FakeGPU. Arguments: version, tokens.
"""

import qwen35
import torch
import torch.distributed as dist
from figures import arguments
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


def flat_shards(model):
    """Version 1: the weights of a layer are one flat tensor, of which each rank has a part."""
    model.to_empty(device="cpu")
    model.tie_weights()
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(model.model.layers[0])}),
        device_id=torch.device("cuda:0"),
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        backward_prefetch=None,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
    )


def shards(model):
    """Version 2: each rank has a part of each weight, along its first dimension."""
    qwen35.to_gpu(model)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    return fully_shard(model, mesh=mesh, reshard_after_forward=True)


version, tokens = arguments(int, int)
torch.cuda.set_device(0)
dist.init_process_group("nccl")
model = qwen35.meta_model("0.8B")
if version == 2:
    qwen35.adapt(model)
model.train()
model = flat_shards(model) if version == 1 else shards(model)
qwen35.step(model, [qwen35.batch(tokens)])
