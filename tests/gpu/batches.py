"""The largest batches for the GPU suite, by the dry run: batches.json has them by program and policy.

    batches.py FILE [GPU [PROGRAM...]]

The environment names the library and the simulated driver, as for `python -m vramtape dry-run`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = ("evaluation", "experts")
BATCH_MAX = 800


def main():
    file, *given = sys.argv[1:]
    gpu, programs = (given or ["h100"])[0], given[1:] or PROGRAMS
    sys.dont_write_bytecode = True
    from children import RIVALS

    found = {}
    for program in programs:
        found[program] = {policy: largest(program, policy, gpu) for policy, _, _ in RIVALS}
        print(program, found[program], flush=True)
    Path(file).write_text(json.dumps(found, indent=1) + "\n")


def largest(program, policy, gpu):
    """The largest batch that fits without a margin."""
    script = Path(__file__).resolve().parent.parent / f"python/recordings/{program}.py"
    with tempfile.TemporaryDirectory() as folder:
        verdict = Path(folder, "verdict.json")
        flags = ["--gpu", gpu, "--route=bridge", "--margin=0", f"--fit=BATCH=1..{BATCH_MAX}", f"--json={verdict}"]
        command = [sys.executable, "-m", "vramtape", "dry-run", *flags, str(script)]
        subprocess.run(command, env=os.environ | {"VRAMTAPE_CONF": f"strategy:{policy}"}, check=True)
        return json.loads(verdict.read_text())["largest"]


if __name__ == "__main__":
    main()
