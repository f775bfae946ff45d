"""Qwen3.5 on the GPU: the published shapes, adapters (LoRA) and batches of the fine-tuning rows.

The published program is `verification/qwen_sft_memory_worker.py` of FanBB2333/FakeGPU. Weights are made on the GPU, of
the published shape, instead of read from a checkpoint.
"""

import older_qwen35
import torch
from figures import figure
from torch import nn
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

SHAPES = {"0.8B": (1024, 3584), "2B": (2048, 6144)}
RANK = 8
ALPHA = 16
# Where weights are before `to_gpu`. A tracker that follows tensors on the GPU only sets it to the GPU.
ORIGIN = torch.device("meta")


def meta_model(size):
    """The model without memory."""
    older_qwen35.use()
    width, inner = SHAPES[size]
    shape = Qwen3_5TextConfig(
        vocab_size=248_320,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=24,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=16,
        max_position_embeddings=262_144,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation="sdpa",
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with ORIGIN:
        model = Qwen3_5ForCausalLM(shape)
    torch.set_default_dtype(before)
    return model


class Adapted(nn.Module):
    """A frozen linear layer and its adapter in fp32, in the order of PEFT's operations."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, RANK, bias=False, device=base.weight.device, dtype=torch.float32)
        self.up = nn.Linear(RANK, base.out_features, bias=False, device=base.weight.device, dtype=torch.float32)

    def forward(self, x):
        result = self.base(x)
        dtype = result.dtype
        x = x.to(self.down.weight.dtype)
        result = result + self.up(self.down(x)) * (ALPHA / RANK)
        return result.to(dtype)


def adapt(model, adapted=Adapted):
    """Freezes the model, and replaces each linear layer except the output's by `adapted`."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    for name, layer in layers:
        if layer is model.get_output_embeddings():
            continue
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, adapted(layer))


def checkpoint(model, is_adapted):
    """Keeps the inputs of each decoder layer only, and computes the others again in the backward pass."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if is_adapted:
        model.enable_input_require_grads()


def to_gpu(model):
    """Moves the model as from a checkpoint: tied weights once. The host's memory is never written."""
    if ORIGIN.type != "cuda":
        model.to_empty(device="cpu")
    model.tie_weights()
    model.to("cuda")


def batch(tokens):
    """One sequence, of which the second half has labels."""
    words = torch.randint(100, 248_320, (1, tokens))
    labels = words.clone()
    labels[:, : tokens // 2] = -100
    positions = torch.arange(tokens).expand(3, 1, tokens).clone()
    tensors = {"input_ids": words, "labels": labels, "position_ids": positions}
    return {name: tensor.to("cuda") for name, tensor in tensors.items()}


class Phases:
    """The peaks of a step's phases."""

    def __init__(self):
        self.peaks = {}

    def begin(self):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def end(self, name):
        torch.cuda.synchronize()
        self.peaks[name] = max(self.peaks.get(name, 0), torch.cuda.max_memory_allocated())

    def print(self):
        figure("peak_graph", max(self.peaks["forward"], self.peaks["backward"]))
        figure("peak_overall", max(self.peaks.values()))


def step(model, batches):
    """One optimizer step over the batches."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-5, foreach=False)
    phases = Phases()
    for number, tensors in enumerate(batches, 1):
        phases.begin()
        outputs = model(**tensors, use_cache=False)
        loss = outputs.loss / len(batches)
        phases.end("forward")
        phases.begin()
        loss.backward()
        phases.end("backward")
        loss.detach().float().item()
        if number < len(batches):
            del outputs, loss
    phases.begin()
    optimizer.step()
    phases.end("optimizer")
    phases.print()
