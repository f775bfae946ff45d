"""Runs an unmodified PyTorch script through vramtape on a simulated GPU: with_vramtape.py SCRIPT [ARGUMENTS...]

For a checkout that is not installed: `vramtape run --sim SCRIPT` with what `cargo xtask demo` has built. Every
allocation is the real one, kernels do nothing, and so the numbers that a script prints mean nothing.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = {
    "VRAMTAPE_LIBRARY": "libvramtape.so",
    "VRAMTAPE_LAB_LIBRARY": "libvramtape_lab.so",
    "VRAMTAPE_SIMCUDA": "simcuda",
}

if len(sys.argv) < 2:
    sys.exit(__doc__)
for variable, name in BUILT.items():
    os.environ.setdefault(variable, os.path.join(ROOT, "target", "release", name))
before = os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.join(ROOT, "python"), *([before] if before else [])])
os.execv(sys.executable, [sys.executable, "-m", "vramtape", "run", "--sim", *sys.argv[1:]])
