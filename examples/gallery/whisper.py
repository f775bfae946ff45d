"""Fine-tuning of Whisper small on windows of 30 seconds."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from training import arguments, train

SHAPE = WhisperConfig(
    d_model=768,
    encoder_layers=12,
    decoder_layers=12,
    encoder_attention_heads=12,
    decoder_attention_heads=12,
    encoder_ffn_dim=3072,
    decoder_ffn_dim=3072,
)

options = arguments(batch=16)
model = WhisperForConditionalGeneration(SHAPE).cuda()
if options.checkpoint == "on":
    model.gradient_checkpointing_enable()


def batch():
    sound = torch.randn(options.batch, SHAPE.num_mel_bins, 3000, device="cuda")
    words = torch.randint(SHAPE.vocab_size, (options.batch, 256), device="cuda")
    return {"input_features": sound, "labels": words}


train(model, batch, lambda model, tensors: model(**tensors).loss, options.steps)
