"""The installed package around PyTorch: its command, its libraries, and what it says where there is no PyTorch."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check import raised, run_cases

import vramtape
from vramtape._command import VERBS
from vramtape._runtime import SIMCUDA_LIBRARIES

INSTALLED = Path(vramtape.__file__).parent


def command(*arguments, code=0, **settings):
    """Runs the `vramtape` command of this environment, with nothing but what is installed; what it printed."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("VRAMTAPE_")}
    line = [os.path.join(os.path.dirname(sys.executable), "vramtape"), *arguments]
    done = subprocess.run(line, env={**ours, **settings}, capture_output=True, text=True)
    assert done.returncode == code, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def test_the_wheel_has_what_it_needs():
    libraries = ("libvramtape.so", "libvramtape_lab.so", *(f"_sim/{name}" for name in SIMCUDA_LIBRARIES))
    for name in (*libraries, "py.typed", "_bridge/cpp/vramtape.h"):
        assert (INSTALLED / name).is_file(), name


def test_the_command_lists_the_verbs_of_the_package():
    listed, _ = command("--help")
    package = listed.split("In the Python package", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"^  ([\w-]+) ", package, re.MULTILINE)) == set(VERBS), listed
    for verb in VERBS:
        assert f"vramtape {verb}" in command(verb, "--help")[0]


def test_a_program_runs_as_it_did():
    code = "import sys; print(sys.argv, 'vramtape' in sys.modules); sys.exit(3)"
    printed, said = command("run", "-c", code, "a", code=3)
    assert printed.startswith("['-c', 'a']") and said == "vramtape: no tape: the program did not import torch\n", said


def test_a_gpu_is_simulated_by_the_driver_of_the_wheel():
    code = (
        "import ctypes; from vramtape import _runtime; _runtime.use_simcuda(); driver = ctypes.CDLL('libcuda.so.1')\n"
        "total = ctypes.c_size_t(); assert driver.cuInit(0) == 0\n"
        "assert driver.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0; print(total.value >> 30)\n"
    )
    printed, said = command("run", "--sim=24GiB", "-c", code)
    assert printed == "24\n" and said.startswith("vramtape: simulated GPU of 24.00 GiB: "), (printed, said)
    assert command("record", "--sim=t4", "-q", "-c", code) == ("14\n", "")


def test_without_torch_everything_says_so():
    assert "has no torch: install PyTorch there" in raised(vramtape.InstallError, vramtape.install)
    assert vramtape.active_route() is None
    report = json.loads(command("doctor", "--json", code=1)[0])
    assert report["route"]["active"] is None and "has no torch" in report["route"]["why"], report
    assert report["vramtape"]["library"] == report["vramtape"]["version"], report["vramtape"]
    assert report["vramtape"]["path"] == str(INSTALLED / "libvramtape.so"), report["vramtape"]
    assert "no torch" in command("doctor", code=1)[0]


def test_clean_removes_what_was_compiled_and_says_what():
    with tempfile.TemporaryDirectory() as folder:
        rings, built = os.path.join(folder, "rings"), os.path.join(folder, "bridge", "torch.so")
        os.mkdir(rings)
        os.mkdir(os.path.dirname(built))
        Path(built).write_bytes(b"")
        said = command("clean", "--rings", "--folder", rings, VRAMTAPE_CACHE=folder)[0]
        assert said == "no ring of a dead process\n" and os.path.exists(built), said
        assert command("clean", "--folder", rings, VRAMTAPE_CACHE=folder)[0] == f"removed {built}\n"
        assert command("clean", "--folder", rings, VRAMTAPE_CACHE=folder)[0].startswith("no ring")


run_cases(__name__)
