"""The golden files of the settings parser hold what this PyTorch does."""

import subprocess
import sys
from pathlib import Path

record = Path(__file__).parent / "config" / "record.py"
if subprocess.run([sys.executable, str(record), "--check"]).returncode != 0:
    print("FAIL settings are as recorded")
    sys.exit(1)
print("PASS settings are as recorded")
