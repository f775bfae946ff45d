"""Prints the answer of `accelerate estimate-memory` for the model of a row: its weights, or a training with Adam.

The command requires a model hub: one on this machine serves the model's configuration. The type is float16, because
bfloat16 is not among its types.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "python", "training"))
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import model_hub

NAME = "row/model"
UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def configuration():
    if os.path.basename(sys.argv[1]) == "qwen3.py":
        import qwen3

        return qwen3.SHAPE
    import qwen35

    return qwen35.meta_model(sys.argv[2]).config


with tempfile.TemporaryDirectory() as folder:
    configuration().save_pretrained(folder)
    with model_hub.serve(NAME, Path(folder)) as hub:
        command = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "estimate-memory", NAME]
        flags = ["--library_name", "transformers", "--dtypes", "float16"]
        environment = {**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_HOME": folder}
        done = subprocess.run([*command, *flags], env=environment, text=True, capture_output=True)
if done.returncode != 0:
    sys.exit(done.stderr or done.stdout)
row = next(line for line in done.stdout.splitlines() if "float16" in line)
_, weights, training = (float(n) * UNITS[u] for n, u in re.findall(r"([\d.]+) (KB|MB|GB)", row))
print("FIGURE peak_inference", int(weights))
print("FIGURE peak_overall", int(training))
