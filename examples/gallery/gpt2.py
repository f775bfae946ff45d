"""Pretraining of GPT-2 (124 million parameters) on random tokens."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from training import arguments, train

TOKENS = 1024

options = arguments(batch=16)
model = GPT2LMHeadModel(GPT2Config()).cuda()
if options.checkpoint == "on":
    model.gradient_checkpointing_enable()


def batch():
    words = torch.randint(model.config.vocab_size, (options.batch, TOKENS), device="cuda")
    return {"input_ids": words, "labels": words}


train(model, batch, lambda model, tensors: model(**tensors).loss, options.steps)
