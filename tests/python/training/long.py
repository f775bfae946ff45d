"""Three trainings of 300 steps, small and without a leak: long.py llama|resnet|gpt

Each has what looks like one: lengths that change, an evaluation now and then, a schedule, a moving average.
"""

import copy
import sys

import torch
import torchvision
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, EVERY = 300, 60
torch.manual_seed(0)


def llama():
    """Lengths drawn at random, checkpointing, accumulation, clipping, and generation without gradients."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, use_cache=False, **sizes)).cuda()
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(STEPS):
        for _ in range(2):
            tokens = torch.randint(0, 512, (2, 16 * int(torch.randint(1, 9, ()))), device="cuda")
            model(input_ids=tokens, labels=tokens).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY == EVERY - 1:
            with torch.no_grad():
                model(input_ids=torch.randint(0, 512, (4, 256), device="cuda"))


def resnet():
    """The last batch of an epoch is smaller, and the best weights are kept."""
    model = torchvision.models.resnet18(num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    best = None
    for step in range(STEPS):
        batch = 3 if step % EVERY == EVERY - 1 else 8
        images = torch.randn(batch, 3, 32, 32, device="cuda")
        labels = torch.randint(0, 10, (batch,), device="cuda")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step % EVERY == EVERY - 1:
            best = copy.deepcopy(model.state_dict())
    assert best


def gpt():
    """A moving average of the weights, and losses that are read now and then."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(512, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 512)).cuda()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(STEPS):
        tokens = torch.randint(0, 512, (4, 64), device="cuda")
        loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        losses.append(loss.detach() if step % EVERY else loss.item())
        losses = losses[-10:]


{"llama": llama, "resnet": resnet, "gpt": gpt}[sys.argv[1]]()
