"""Two tokens of Qwen3-8B for a prompt of nine.

The published program is `verification/qwen_inference_memory_worker.py` of FanBB2333/FakeGPU. Weights are made on the
GPU, of the published shape, instead of read from a checkpoint.
"""

import torch
from figures import figure
from transformers import Qwen3Config, Qwen3ForCausalLM

PROMPT = 9
SHAPE = Qwen3Config(
    vocab_size=151_936,
    hidden_size=4096,
    intermediate_size=12_288,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40_960,
    tie_word_embeddings=False,
    attn_implementation="sdpa",
)


def main():
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = Qwen3ForCausalLM(SHAPE)
    model = model.to_empty(device="cuda").eval()
    torch.cuda.synchronize()
    figure("parameters", sum(parameter.numel() for parameter in model.parameters()))
    figure("allocated_after_load", torch.cuda.memory_allocated())
    torch.cuda.reset_peak_memory_stats()
    words = torch.zeros((1, PROMPT), dtype=torch.long).to("cuda")
    mask = torch.ones((1, PROMPT), dtype=torch.long).to("cuda")
    with torch.inference_mode():
        outputs = model(input_ids=words, attention_mask=mask, use_cache=True)
        word = torch.argmax(outputs.logits[:, -1, :], dim=-1, keepdim=True)
        word.item()
        mask = torch.cat([mask, torch.ones((1, 1), dtype=mask.dtype, device="cuda")], dim=1)
        outputs = model(input_ids=word, attention_mask=mask, past_key_values=outputs.past_key_values, use_cache=True)
        torch.argmax(outputs.logits[:, -1, :], dim=-1, keepdim=True).item()
    torch.cuda.synchronize()
    figure("peak_inference", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()
