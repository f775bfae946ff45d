"""One step of fine-tuning Qwen3.5. Arguments: size, `full` or `lora`, tokens, `keep` or `checkpoint`, batches."""

import qwen35
from figures import arguments, figure

size, method, tokens, activations, batches = arguments(str, str, int, str, int)
model = qwen35.meta_model(size)
figure("parameters", sum(parameter.numel() for parameter in model.parameters()))
if method == "lora":
    qwen35.adapt(model)
if activations == "checkpoint":
    qwen35.checkpoint(model, method == "lora")
model.train()
qwen35.to_gpu(model)
figure("trainable", sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad))
qwen35.step(model, [qwen35.batch(tokens) for _ in range(batches)])
