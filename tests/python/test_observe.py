"""The route that replaces nothing: what PyTorch's own allocator did is on our tape as PyTorch's own history has it, and
the tape replays under `native` to the placements and the peak of the run.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harness import COMMAND, PACKAGE, ROOT, run_cases, run_python, run_served
from parity.cases import CASES, EXPANDABLE, LAG

NAMES = ("train_gpt_expandable", "streams", "graphs", "tight", "tight_expandable", "out_of_memory", "limited")
RUNS = {name: CASES[name] for name in NAMES} | {
    "mid_run": ("mid_run", "", LAG),
    "mid_run_expandable": ("mid_run", EXPANDABLE, LAG),
}


def command(*arguments):
    run = subprocess.run([COMMAND, *arguments], text=True, capture_output=True)
    if run.returncode != 0:
        raise AssertionError(f"vramtape {' '.join(arguments)}: {run.stdout}{run.stderr}")
    return run.stdout


def observed(name):
    function, config, sim = RUNS[name]
    snapshot, tape, report = (os.path.abspath(f"{name}.{kind}") for kind in ("pickle", "vtape", "json"))
    settings = {**sim, **({"PYTORCH_CUDA_ALLOC_CONF": config} if config else {})}
    conf = f'record:file,tape_replace:True,tape:"{tape}"'
    run_served("observe/run.py", function, snapshot, report, **settings, VRAMTAPE_CONF=conf)
    with open(report) as file:
        run = json.load(file)
    difference = json.loads(command("verify", tape, "--against", snapshot, "--json"))
    assert difference["allocations"] > 20 and difference["frees"] > 10, difference
    replay = json.loads(command("replay", tape, "--json"))
    # Before 2.8 PyTorch's trace names no pool, and a graph's memory counts as the default pool's.
    if tuple(map(int, version("torch").split(".")[:2])) >= (2, 8) or function != "graphs":
        assert replay["peak_reserved_bytes"] == run["peak_reserved_bytes"], (replay, run)
    return f"({difference['allocations']} allocations)"


def recorded(name, **settings):
    """Where the tape of `vramtape record` has the calls of a script from: the source lines by kind of event."""
    tape, snapshot = os.path.abspath(f"{name}.vtape"), os.path.abspath(f"{name}.pickle")
    script = os.path.join(ROOT, "tests/python/training/holes.py")
    said = run_python("-m", "vramtape", "record", "-f", "-o", tape, script, **PACKAGE, **settings)
    report = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    replay = json.loads(command("replay", tape, "--json"))
    assert replay["peak_reserved_bytes"] == report["peak_reserved_bytes"], (replay, report)
    command("export", tape, "-o", snapshot)
    with open(snapshot, "rb") as file:
        (trace,) = pickle.load(file)["device_traces"]
    source = Path(script).read_text().splitlines()
    found = {}
    for entry in trace:
        lines = [source[frame["line"] - 1] for frame in entry["frames"] if frame["filename"] == script]
        found.setdefault(entry["action"], []).append(lines[-1].split("=")[0].strip() if lines else "")
    return found, said


# The allocations of `holes.py` before it reports.
ALLOCATIONS = ["tensors"] * 100 + ["large"]
FREES = ["del tensors[::2]"] * 50


SNAPSHOT = """
import vramtape
vramtape.observe()
import torch
held = torch.empty(9, device="cuda")
segments = torch.cuda.memory._snapshot()["segments"]
assert segments and not any(block["frames"] for segment in segments for block in segment["blocks"]), segments
"""


PROFILED = """
import vramtape
vramtape.observe()
import torch
torch.empty(9, device="cuda")
with vramtape.profile() as p:
    torch.empty(9, device="cuda")
stats = [p.memory_stats[name] for name in ("start_allocated_bytes", "end_allocated_bytes", "events")]
assert stats == [0, 0, {"alloc": 1, "free": 1}], stats
"""


def with_profile():
    """The last free before a block is not in it, and the last one in it is: neither waits for what comes next."""
    run_python("-c", PROFILED, **PACKAGE)


def with_stacks():
    """Stacks as configured, of which PyTorch's own snapshot shows nothing."""
    run_python("-c", SNAPSHOT, **PACKAGE, VRAMTAPE_CONF="stacks:all")
    found, _ = recorded("stacks", VRAMTAPE_CONF="stacks:all")
    assert found["alloc"][:101] == ALLOCATIONS and found["free_requested"][:50] == FREES, found
    found, _ = recorded("stacks_every", VRAMTAPE_CONF="stacks_every:8MiB")
    shown = [line for line in found["alloc"][:101] if line]
    assert 5 < len(shown) < 90 and set(shown) <= set(ALLOCATIONS), found
    found, _ = recorded("stacks_alloc", VRAMTAPE_CONF="stacks:alloc")
    assert found["alloc"][:101] == ALLOCATIONS and found["free_requested"][:50] == [""] * 50, found


def without_tracker():
    """Where nothing can compile it, PyTorch's own history becomes the tape at the end."""
    with tempfile.TemporaryDirectory() as cache:
        settings = {"CXX": "no-such-compiler", "VRAMTAPE_CACHE": cache}
        found, said = recorded("untracked", VRAMTAPE_CONF="stacks:alloc", **settings)
        assert found["alloc"][:101] == ALLOCATIONS, found
        assert "without its tracker" in said and "no C++ compiler" in said, said
        assert said.splitlines()[-1] == "vramtape: the tape is untracked.vtape", said
        try:
            run_python("-c", "import vramtape; vramtape.observe()", **PACKAGE, **settings)
            raise AssertionError("there is no ring without the tracker")
        except AssertionError as error:
            assert "observe(tape=" in str(error), error


ALONE = {"with_profile": with_profile, "with_stacks": with_stacks, "without_tracker": without_tracker}
wanted = sys.argv[1:] or [*RUNS, *ALONE]
run_cases([(f"observe.{name}", ALONE.get(name) or (lambda name=name: observed(name))) for name in wanted])
