"""Pretraining of a Llama with 1.2 billion parameters (the shape of Llama 3.2 1B), compiled."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from training import arguments, train

SHAPE = LlamaConfig(
    vocab_size=128_256,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=131_072,
    rope_theta=500_000.0,
    tie_word_embeddings=True,
    use_cache=False,
)

options = arguments(batch=2, tokens=4096, compile="on")
with torch.device("cuda"):
    model = LlamaForCausalLM(SHAPE)
if options.checkpoint == "on":
    model.gradient_checkpointing_enable()
compiled = torch.compile(model) if options.compile == "on" else model


def batch():
    words = torch.randint(SHAPE.vocab_size, (options.batch, options.tokens), device="cuda")
    return {"input_ids": words, "labels": words}


train(compiled, batch, lambda model, tensors: model(**tensors).loss, options.steps)
