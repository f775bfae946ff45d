"""Writes a small language model with its tokenizer, and texts and preferences to train it on, to this folder."""

import json
import os

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config

SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def words(start, step, count):
    return " ".join(f"w{(start + step * at) % 996}" for at in range(count))


def write(folder, rows):
    os.makedirs(folder)
    with open(os.path.join(folder, "train.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


names = [f"w{at}" for at in range(996)] + list(SPECIAL.values())
tokenizer = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained("model")
config = Qwen3Config(
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    intermediate_size=512,
    vocab_size=1000,
)
AutoModelForCausalLM.from_config(config).save_pretrained("model")
write("texts", ({"text": words(7 * at, 1, 200)} for at in range(64)))
pairs = ({"prompt": words(at, 1, 20), "chosen": words(at, 3, 50), "rejected": words(at, 5, 50)} for at in range(64))
write("pairs", pairs)
