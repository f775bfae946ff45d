"""Everything that this torch imports from CUDA is defined, refused on purpose, or left to the real library."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[3] / "simcuda/entry_points.py"
subprocess.run([sys.executable, str(SCRIPT), "--check", sys.prefix], check=True)
