"""Writes the configuration of Qwen3-8B, and no weights."""

from transformers import Qwen3Config

Qwen3Config(
    hidden_size=4096,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=12288,
    vocab_size=151936,
    dtype="bfloat16",
    architectures=["Qwen3ForCausalLM"],
).save_pretrained("large")
