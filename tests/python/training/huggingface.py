"""Hugging Face's Trainer, with our callback in its log."""

import json
import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from vramtape.integrations.huggingface import MemoryCallback

sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, use_cache=False, **sizes))
tokens = [{"input_ids": torch.arange(32), "labels": torch.arange(32)}] * 32
lines = []
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=4,
        logging_steps=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    callback = MemoryCallback(snapshot_step=3, snapshot_dir=folder, log=lines.append)
    trainer = Trainer(model, arguments, train_dataset=tokens, callbacks=[callback])
    trainer.train()
    snapshots = sorted(path.name for path in Path(folder).glob("memory-*"))
assert [line.split("]")[0] for line in lines[:2]] == ["[step 2", "[step 4"], lines
entries = [entry for entry in trainer.state.log_history if "loss" in entry]
assert len(entries) == 2 and all(0 < entry["memory_allocated_gb"] <= entry["memory_peak_gb"] for entry in entries)
assert "memory-rank0-device0-step3.pickle" in snapshots, snapshots
print(json.dumps({"snapshots": snapshots}))
