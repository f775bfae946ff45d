"""The programs of `examples/gallery` end well in a dry run, and take the memory that the gallery says.

One of each kind; arguments name others. The compiled Llama and what needs packages of its own (torchtitan,
bitsandbytes) were run by hand.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from harness import PACKAGE, ROOT, clean_environment, run_cases

GALLERY = os.path.join(ROOT, "examples", "gallery")
PROGRAMS = ("gpt2.py", "resnet.py", "moe.py")
LIMIT_SECONDS = 300


def published(program):
    """The GiB of the gallery's table: allocated, reserved, device total."""
    with open(os.path.join(GALLERY, "README.md")) as file:
        (row,) = re.findall(rf"`vramtape dry-run --gpu h100 {re.escape(program)}` \|(.*)\|", file.read())
    return [cell.strip() for cell in row.split("|")[:3]]


def check(program):
    def run():
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "result.json")
            command = [sys.executable, "-m", "vramtape", "dry-run", "--quiet", "--gpu", "h100", "--json", result]
            done = subprocess.run(
                [*command, os.path.join(GALLERY, program)],
                cwd=folder,
                env=clean_environment(**PACKAGE),
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
            )
            assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            with open(result) as file:
                made = json.load(file)
        (device,) = made["devices"]
        names = ("peak_allocated_bytes", "peak_reserved_bytes", "device_total_bytes")
        found = [f"{device[name] / 2**30:.2f}" for name in names]
        assert found == published(program), f"{program} takes {found} GiB and not {published(program)}"

    return run


run_cases([(f"gallery.{program}", check(program)) for program in sys.argv[1:] or PROGRAMS])
