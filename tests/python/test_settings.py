"""The golden files of the settings parser hold what this PyTorch does."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

# Before 2.9 another parser read the settings, with errors of its own; there we follow 2.11.
if tuple(map(int, version("torch").split(".")[:2])) < (2, 9):
    print("skipped: before torch 2.9 another parser read the settings")
    sys.exit()
record = Path(__file__).parent / "config" / "record.py"
if subprocess.run([sys.executable, str(record), "--check"]).returncode != 0:
    print("FAIL settings are as recorded")
    sys.exit(1)
print("PASS settings are as recorded")
