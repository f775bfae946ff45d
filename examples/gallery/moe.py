"""Pretraining of a mixture of experts: 8 of 64 experts in each of 16 layers, 3.3 billion parameters.

The router decides how many tokens an expert has. A dry run guesses these numbers, and the result counts the guesses.
"""

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from training import arguments, train

SHAPE = Qwen3MoeConfig(
    vocab_size=50_304,
    hidden_size=2048,
    intermediate_size=1024,
    moe_intermediate_size=512,
    num_hidden_layers=16,
    num_attention_heads=16,
    num_key_value_heads=16,
    num_experts=64,
    num_experts_per_tok=8,
    use_cache=False,
)

options = arguments(batch=2, tokens=2048)
with torch.device("cuda"):
    model = Qwen3MoeForCausalLM(SHAPE)


def batch():
    words = torch.randint(SHAPE.vocab_size, (options.batch, options.tokens), device="cuda")
    return {"input_ids": words, "labels": words}


train(model, batch, lambda model, tensors: model(**tensors).loss, options.steps)
