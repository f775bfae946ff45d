"""Loads a language model and a model of diffusion from folders, and prints the peaks of memory."""

import torch
from diffusers import UNet2DModel
from transformers import AutoModelForCausalLM

language = AutoModelForCausalLM.from_pretrained("language", dtype=torch.bfloat16, device_map="cuda")
picture = UNet2DModel.from_pretrained("pipeline", subfolder="unet", torch_dtype=torch.float16).cuda()
picture(torch.zeros(1, 3, 32, 32, device="cuda", dtype=torch.float16), 1)
language.generate(torch.arange(9, device="cuda")[None], max_new_tokens=2, do_sample=False)
print("peaks", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
