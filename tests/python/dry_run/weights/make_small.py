"""Writes the models of small.py, with weights."""

from diffusers import UNet2DModel
from transformers import AutoModelForCausalLM, Qwen3Config

config = Qwen3Config(
    hidden_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=64,
    intermediate_size=1024,
    vocab_size=8000,
    dtype="bfloat16",
)
AutoModelForCausalLM.from_config(config).save_pretrained("language")
blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
UNet2DModel(sample_size=32, block_out_channels=(64, 128), **blocks).save_pretrained("pipeline/unet")
