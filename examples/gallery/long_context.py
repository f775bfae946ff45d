"""Inference of Llama 3.1 8B with a prompt of 131,072 tokens, in chunks, and some generated tokens.

The cache of keys and values grows with every chunk: each layer concatenates the old one and the new part.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from training import arguments

SHAPE = LlamaConfig(
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=131_072,
    rope_theta=500_000.0,
)

options = arguments(batch=1, tokens=131_072, chunk=8192, generated=16)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(SHAPE).eval()
prompt = torch.randint(SHAPE.vocab_size, (options.batch, options.tokens), device="cuda")
with torch.inference_mode():
    cache = None
    for chunk in prompt.split(options.chunk, dim=1):
        answer = model(chunk, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = answer.past_key_values
    for _ in range(options.generated):
        word = answer.logits[:, -1:].argmax(-1)
        answer = model(word, past_key_values=cache, use_cache=True)
print(f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB allocated at the peak")
