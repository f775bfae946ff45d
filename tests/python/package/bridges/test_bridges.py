"""The wheel that `cargo xtask wheel` makes, beside one of the PyTorches it has a bridge for: the route is the bridge
where nothing could compile one.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import vramtape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from check import run_cases

PACKAGE = Path(vramtape.__file__).parent
# The wheel's own libraries are meant, and no compiler is named.
LEFT_OUT = ("VRAMTAPE_LIBRARY", "VRAMTAPE_LAB_LIBRARY", "VRAMTAPE_CONF", "CXX", "PYTORCH_CUDA_ALLOC_CONF")
TRAIN = """
import vramtape
assert vramtape.install() == "bridge"
import torch
x = torch.ones(1000, 1000, device="cuda", requires_grad=True)
(x @ x).sum().backward()
assert torch.cuda.memory_stats()["num_device_alloc"] > 0 and torch.cuda.memory_snapshot()
"""


def without_compiler(folder, *arguments):
    """Runs Python with nothing on its PATH, and the empty folder as the cache."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    environment = {**kept, "PATH": folder, "VRAMTAPE_CACHE": folder}
    line = [sys.executable, "-W", "error::UserWarning:vramtape", *arguments]
    done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_bridge_is_there_without_a_compiler():
    with tempfile.TemporaryDirectory() as folder:
        report = json.loads(without_compiler(folder, "-m", "vramtape", "doctor", "--json"))
        assert report["route"] == {"active": "bridge", "why": ""}, report
        assert report["bridge"]["compiler"] is None and report["bridge"]["problems"] == [], report
        assert Path(report["bridge"]["built"]).parent == PACKAGE / "_bridge" / "prebuilt", report
        without_compiler(folder, "-c", TRAIN)
        assert os.listdir(folder) == [], "nothing is compiled or written"


def test_a_program_runs_on_a_simulated_gpu():
    """With nothing but the wheel: `--sim` takes the driver in it."""
    with tempfile.TemporaryDirectory() as folder:
        code = "import torch; held = torch.ones(9, device='cuda'); print(torch.cuda.mem_get_info()[1])"
        kept = {name: value for name, value in os.environ.items() if name not in (*LEFT_OUT, "VRAMTAPE_SIMCUDA")}
        line = [sys.executable, "-m", "vramtape", "run", "--sim=24GiB", "-o", "run.vtape", "-c", code]
        done = subprocess.run(line, env=kept, cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{24 << 30}\n"), done.stdout + done.stderr
        assert done.stderr.splitlines()[-1] == "vramtape: the tape is run.vtape", done.stderr
        assert os.listdir(folder) == ["run.vtape"]


run_cases(__name__)
