"""Writes the model of make_large.py in several files, whose data are holes."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from vramtape._weights.pretrained import hollow_files

with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("large"), dtype=torch.bfloat16)
with hollow_files():
    model.save_pretrained("remote", max_shard_size="5GB")
