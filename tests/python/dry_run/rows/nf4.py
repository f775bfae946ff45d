"""One step of fine-tuning Qwen3.5 with adapters on 4-bit weights, in plain operators.

The published program is `verification/qwen_sft_memory_worker.py` of FanBB2333/FakeGPU, with its `native_nf4.py`, which
needs no package for quantization. A weight has two codes in a byte and a scale for 64 of them; `nested` scales are
bytes themselves. Arguments: size, `direct` or `nested`, tokens, `keep` or `checkpoint`.
"""

import qwen35
import torch
from figures import arguments, figure
from torch import nn
from torch.nn import functional

BLOCK = 64
SCALE_BLOCK = 256


class Weight(nn.Module):
    """A weight of 4 bits for each element, and its adapter in fp32."""

    def __init__(self, base):
        super().__init__()
        outputs, inputs = self.shape = base.weight.shape
        blocks = outputs * inputs // BLOCK
        self._add("packed", blocks * BLOCK // 2, dtype=torch.uint8)
        is_nested = scales == "nested"
        self._add("scales", blocks, dtype=torch.uint8 if is_nested else torch.float32)
        self._add("codes", 256, 2, dtype=torch.bfloat16)
        self._add("scale_scales", -(-blocks // SCALE_BLOCK) if is_nested else 0)
        self._add("scale_offset", *([] if is_nested else [0]))
        self._add("scale_codes", *([256, 1] if is_nested else [0]))
        self.down = nn.Parameter(torch.empty(qwen35.RANK, inputs, dtype=torch.float32, device=qwen35.ORIGIN))
        self.up = nn.Parameter(torch.empty(outputs, qwen35.RANK, dtype=torch.float32, device=qwen35.ORIGIN))

    def _add(self, name, *shape, dtype=torch.float32):
        self.register_buffer(name, torch.empty(shape, dtype=dtype, device=qwen35.ORIGIN))

    def forward(self, x):
        stored = (self.packed, self.scales, self.codes, self.scale_scales, self.scale_offset, self.scale_codes)
        base = Multiplied.apply(x, self.shape, *stored)
        lowered = functional.linear(x.to(self.down.dtype), self.down)
        raised = functional.linear(lowered, self.up)
        return base + raised.to(base.dtype) * (qwen35.ALPHA / qwen35.RANK)


class Multiplied(torch.autograd.Function):
    """The product with a weight that is unpacked once for the forward pass and once for the backward pass."""

    @staticmethod
    def forward(context, x, shape, *stored):
        context.save_for_backward(*stored)
        context.shape = shape
        weight = unpacked(shape, x.dtype, *stored)
        return functional.linear(x, weight)

    @staticmethod
    def backward(context, gradient):
        for_x = None
        if context.needs_input_grad[0]:
            weight = unpacked(context.shape, gradient.dtype, *context.saved_tensors)
            for_x = torch.matmul(gradient, weight)
        return (for_x, *[None] * 7)


def unpacked(shape, dtype, packed, scales, codes, *nested):
    factors = unpacked_scales(scales, *nested).to(dtype)
    places = packed.to(torch.int32)
    values = functional.embedding(places, codes).reshape(-1)
    del places
    weight = values.view(-1, BLOCK) * factors.unsqueeze(1)
    del values, factors
    return weight.view(shape)


def unpacked_scales(scales, scale_scales, scale_offset, scale_codes):
    if not scale_scales.numel():
        return scales
    places = scales.to(torch.int32)
    values = functional.embedding(places, scale_codes).reshape(-1)
    del places
    factors = scale_scales.repeat_interleave(SCALE_BLOCK)[: scales.numel()]
    return values.mul_(factors).add_(scale_offset)


size, scales, tokens, activations = arguments(str, str, int, str)
model = qwen35.meta_model(size)
qwen35.adapt(model, Weight)
if activations == "checkpoint":
    qwen35.checkpoint(model, is_adapted=True)
model.train()
qwen35.to_gpu(model)
figure("trainable", sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad))
qwen35.step(model, [qwen35.batch(tokens)])
