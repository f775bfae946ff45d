"""A model of 8 billion parameters: from a folder, from a hub, or made on the host.

Prints the bytes of the model, the peak of the GPU, and the memory of the host.
"""

import os
import resource
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

how, name = sys.argv[1:]
if how == "made":
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)
    model = model.to(torch.bfloat16)
else:
    if how == "downloaded":
        from huggingface_hub import snapshot_download

        files = os.listdir(snapshot_download(name))
        assert "config.json" in files and any(file.endswith(".safetensors") for file in files), files
    model = AutoModelForCausalLM.from_pretrained(name)
model.cuda()
size_bytes = sum(parameter.nbytes for parameter in model.parameters())
if how == "loaded":
    model.generate(torch.arange(9, device="cuda")[None], max_new_tokens=2, do_sample=False)
copies = [parameter.cpu() for parameter in model.parameters()]  # As for a checkpoint.
host_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("large", size_bytes, torch.cuda.max_memory_allocated(), host_bytes)
