"""The share of a training step that the simulated libraries and the allocator take; `steps.py` measures it."""

from __future__ import annotations

import os
import subprocess
import sys

from contestants import HERE, harness


def shares() -> dict[str, float]:
    """Of a step: its processor time in ns, and what the libraries and the allocator take of it at most."""
    command = [sys.executable, "-m", "vramtape", "dry-run", "--quiet", os.path.join(HERE, "steps.py")]
    environment = harness.clean_environment(**harness.PACKAGE)
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
    figures = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FIGURE ")]
    return {name: float(value) for name, value in figures}
