"""PyTorch's own tools read the snapshots we write, and see in a replay what they see in the recording."""

import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch.cuda import _memory_viz

import harness

TRACES = pathlib.Path(harness.ROOT) / "tests" / "data" / "traces"
NAMES = sorted(path.name.removesuffix(".json") for path in TRACES.glob("*.json"))


def replay(name, output, *arguments):
    """Replays a recording and writes what the replay did."""
    snapshot, meta = TRACES / f"{name}.pickle.zst", TRACES / f"{name}.json"
    command = [harness.COMMAND, "replay", snapshot, "--meta", meta, "--snapshot", output, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return output


def memory_viz(verb, snapshot):
    """The output of `python -m torch.cuda._memory_viz VERB SNAPSHOT`, without starting another PyTorch."""
    with open(snapshot, "rb") as file:
        data = pickle.load(file)
    text = {"stats": _memory_viz.segsum, "trace": _memory_viz.trace}[verb](data)
    # Entries it has no words for are printed as they are: keep what both sides must agree on.
    return re.sub(r"('stream': \d+), 'time_us'.*", r"\1}", text)


def recording(name, folder):
    """The recording itself, decompressed."""
    path = folder / f"{name}.recorded.pickle"
    subprocess.run(["zstd", "-dqf", "--long=27", TRACES / f"{name}.pickle.zst", "-o", path], check=True)
    return path


def same_in_memory_viz(name, folder):
    if shutil.which("zstd") is None:
        return "skipped: no zstd here to unpack the recording"
    ours, theirs = replay(name, folder / f"{name}.pickle"), recording(name, folder)
    for verb in ("stats", "trace"):
        if memory_viz(verb, ours) != memory_viz(verb, theirs):
            raise AssertionError(f"_memory_viz {verb} of the replay differs from the recording's")


def other_policy(name, folder):
    path = replay(name, folder / f"{name}.expandable.pickle", "--strategy", "expandable")
    assert memory_viz("stats", path) and memory_viz("trace", path)


def json_is_the_pickle(name, folder):
    with open(replay(name, folder / f"{name}.twin.pickle"), "rb") as file:
        from_pickle = pickle.load(file)
    with open(replay(name, folder / f"{name}.json")) as file:
        from_json = json.load(file)
    # JSON has no tuples; pools are lists in it.
    assert json.loads(json.dumps(from_pickle)) == from_json


def command_line_reads_it(folder):
    path = replay("fragmentation_exercise-default", folder / "command_line.pickle")
    for verb in ("stats", "trace"):
        command = [sys.executable, "-m", "torch.cuda._memory_viz", verb, path]
        done = subprocess.run(command, text=True, capture_output=True)
        assert done.returncode == 0 and done.stdout, f"_memory_viz {verb}: {done.stderr}"


with tempfile.TemporaryDirectory() as folder:
    checks = (same_in_memory_viz, other_policy, json_is_the_pickle)
    cases = [
        (f"{check.__name__} {name}", lambda check=check, name=name: check(name, pathlib.Path(folder)))
        for name in NAMES
        for check in checks
    ]
    cases.append(("command_line_reads_it", lambda: command_line_reads_it(pathlib.Path(folder))))
    harness.run_cases(cases)
