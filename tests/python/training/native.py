"""Runs a script of this folder under PyTorch's own allocator: `native.py SCRIPT ARGUMENTS`."""

import os
import runpy
import sys

from vramtape import _runtime

_runtime.use_simcuda()
sys.argv = sys.argv[1:]
runpy.run_path(os.path.join(sys.path[0], sys.argv[0]), run_name="__main__")
