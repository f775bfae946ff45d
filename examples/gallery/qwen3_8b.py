"""Writes what a fine-tuning of Qwen3-8B reads, without weights: FOLDER/model and FOLDER/texts. Argument: FOLDER.

A dry run loads the model from its configuration alone (docs/dry-run.md#weights). The tokenizer has few words, and the
texts are long enough to fill every batch.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config

WORDS = 1000
SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
SHAPE = Qwen3Config(
    architectures=["Qwen3ForCausalLM"],
    dtype="bfloat16",
    vocab_size=151_936,
    hidden_size=4096,
    intermediate_size=12_288,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40_960,
)

folder = Path(sys.argv[1])
SHAPE.save_pretrained(folder / "model")
names = [f"w{at}" for at in range(WORDS)] + list(SPECIAL.values())
tokenizer = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder / "model")
(folder / "texts").mkdir(exist_ok=True)
rows = ({"text": " ".join(f"w{(at + step) % WORDS}" for step in range(4096))} for at in range(64))
(folder / "texts" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
