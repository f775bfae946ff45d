"""A fine-tuning step of the adapters of Qwen3.5 0.8B under DeepSpeed's ZeRO.

The published program is `verification/qwen_deepspeed_lora_sft_worker.py` of FanBB2333/FakeGPU. Arguments: stage,
tokens, `keep` or `checkpoint`, batches for each step.
"""

import os

import nvidia
import qwen35
import torch
import torch.distributed as dist
from figures import arguments

# DeepSpeed runs the nvcc of this folder for its version when it is imported.
TOOLKITS = [os.path.join(folder, "cu13") for folder in nvidia.__path__]
os.environ.setdefault("CUDA_HOME", next(it for it in TOOLKITS if os.path.exists(os.path.join(it, "bin", "nvcc"))))
import deepspeed


def configuration(stage, batches):
    return {
        "train_batch_size": dist.get_world_size() * batches,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": batches,
        "gradient_clipping": 1.0,
        "zero_optimization": {
            "stage": stage,
            "contiguous_gradients": True,
            "reduce_scatter": True,
            "reduce_bucket_size": 5_000_000,
            "allgather_partitions": True,
            "allgather_bucket_size": 5_000_000,
            "overlap_comm": False,
            "stage3_prefetch_bucket_size": 5_000_000,
            "stage3_param_persistence_threshold": 100_000,
        },
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True},
    }


def engine(model, stage, batches):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4, foreach=False)
    made, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=configuration(stage, batches), dist_init_required=False
    )
    return made


stage, tokens, activations, batches = arguments(int, int, str, int)
torch.cuda.set_device(0)
dist.init_process_group("nccl")
model = qwen35.meta_model("0.8B")
qwen35.adapt(model)
if activations == "checkpoint":
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
model.train()
qwen35.to_gpu(model)
model = engine(model, stage, batches)
inputs = [qwen35.batch(tokens) for _ in range(batches)]
phases = qwen35.Phases()
for tensors in inputs:
    phases.begin()
    outputs = model(**tensors, use_cache=False)
    loss = outputs.loss
    phases.end("forward")
    phases.begin()
    model.backward(loss)
    phases.end("backward")
    phases.begin()
    model.step()
    phases.end("optimizer")
    del outputs, loss
phases.print()
