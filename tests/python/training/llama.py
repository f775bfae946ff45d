"""A Llama of Hugging Face, from a config: bfloat16, checkpointing, accumulation, clipping, a schedule."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

from report import report

config = LlamaConfig(
    vocab_size=4096,
    hidden_size=512,
    intermediate_size=1376,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    use_cache=False,
)
torch.manual_seed(0)
model = LlamaForCausalLM(config).to("cuda", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
schedule = get_cosine_schedule_with_warmup(optimizer, 2, 6)

for _ in range(3):
    for _ in range(2):
        tokens = torch.randint(0, config.vocab_size, (4, 256), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
report(loss=loss.item())
