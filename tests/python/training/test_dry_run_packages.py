"""Programs of packages by their own command lines under `vramtape dry-run`: they end well after a number of optimizer
steps, nothing is left out, and the peaks are those of the table. Configurations and data are local.

UPDATE_GOLDEN=1 prints the peaks.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from harness import PACKAGE, ROOT, clean_environment, run_cases

PROGRAMS = os.path.join(ROOT, "tests", "python", "dry_run", "packages")
LIMIT_SECONDS = 300
STEPS = 3
COMMON = "--model_name_or_path model --report_to none --output_dir out --per_device_train_batch_size 4 --max_length 128"
CLIP = "--dataset-type synthetic --train-num-samples 4096 --epochs 1 --workers 0 --precision amp"
# A name, the command line, the peaks of allocated and reserved memory in bytes.
COMMANDS = {
    "trl sft, LoRA": (f"trl sft {COMMON} --dataset_name ./texts --use_peft", 117513728, 123731968),
    "trl dpo": (f"trl dpo {COMMON} --dataset_name ./pairs", 150778368, 163577856),
    "trl reward": (f"trl reward {COMMON} --dataset_name ./pairs", 117061632, 140509184),
    "open_clip_train": (f"-m open_clip_train.main {CLIP} --model ViT-B-32 --batch-size 128", 6792372224, 7337934848),
    "accelerate launch": (
        "accelerate launch --num_processes 1 --mixed_precision bf16 accelerated.py",
        152125440,
        176160768,
    ),
    "fabric run": (
        "fabric run --accelerator cuda --devices 1 --precision bf16-mixed by_fabric.py",
        152125440,
        176160768,
    ),
}
FOLDER = tempfile.TemporaryDirectory()


def environment():
    """The commands beside this Python, and no network."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    return clean_environment(**PACKAGE, PATH=path, HF_HUB_OFFLINE="1", HF_HOME=os.path.join(FOLDER.name, "cache"))


def prepare():
    for name in os.listdir(PROGRAMS):
        shutil.copy(os.path.join(PROGRAMS, name), FOLDER.name)
    subprocess.run([sys.executable, "model.py"], cwd=FOLDER.name, env=environment(), check=True, capture_output=True)


def check(name):
    command, *peaks = COMMANDS[name]

    def run():
        # Two run at a time.
        result = os.path.join(FOLDER.name, f"{name}.json")
        options = ["--quiet", "--gpu", "h100", "--steps", str(STEPS), "--json", result]
        line = [sys.executable, "-m", "vramtape", "dry-run", *options, *shlex.split(command)]
        done = subprocess.run(
            line, cwd=FOLDER.name, env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        assert done.returncode == 0, f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        with open(result, encoding="utf-8") as file:
            made = json.load(file)
        assert (made["verdict"], made["not_simulated"]) == ("fits", []), made
        (device,) = made["devices"]
        found = [device["peak_allocated_bytes"], device["peak_reserved_bytes"]]
        if os.environ.get("UPDATE_GOLDEN") == "1":
            return f"peaks of {name}: {found}"
        assert found == peaks, f"`{command}` takes {found} bytes and not {peaks}"
        return f"{found[0] / 2**20:.2f} MiB"

    return run


prepare()
wanted = sys.argv[1:] or COMMANDS
run_cases([(f"dry_run_packages.{name}", check(name)) for name in wanted])
