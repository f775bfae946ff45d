"""Stacks of a real PyTorch program are on its tape, and in the snapshot that PyTorch's tools read."""

import os
import pickle
import re
import subprocess
import tempfile

from harness import COMMAND, LIBRARY, ROOT, run_cases, run_child, run_served

SCRIPT = os.path.join(ROOT, "tests", "python", "stacks", "run.py")
MIB = 1 << 20


def line_of(mark):
    with open(SCRIPT) as file:
        return next(number for number, line in enumerate(file, 1) if f"# LINE {mark}" in line)


def recorded(mode, settings):
    """The tape of a run, as a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        tape, snapshot = os.path.join(folder, "run.vtape"), os.path.join(folder, "run.pickle")
        run_served("stacks/run.py", mode, VRAMTAPE_CONF=f"{settings},tape:{tape}")
        subprocess.run([COMMAND, "replay", tape, "--snapshot", snapshot], check=True, stdout=subprocess.DEVNULL)
        with open(snapshot, "rb") as file:
            return pickle.load(file)


def trace(snapshot, *actions):
    return [entry for entry in snapshot["device_traces"][0] if entry["action"] in actions]


def innermost(entry):
    frames = entry.get("frames") or [{"name": None, "filename": None, "line": None}]
    return tuple(frames[0][key] for key in ("name", "filename", "line"))


def places(entries):
    return {innermost(entry) for entry in entries}


def make():
    name = "Model.make" if hasattr(make.__code__, "co_qualname") else "make"
    return (name, SCRIPT, line_of("make"))


def all_of_them():
    snapshot = recorded("plain", "stacks:all")
    allocs = trace(snapshot, "alloc")
    assert len(allocs) == 203 and places(allocs) == {make()}, places(allocs)
    large = [entry for entry in allocs if entry["size"] == 20 * MIB]
    names = [frame["name"] for frame in large[0]["frames"]]
    assert names.count("deep") == 20 and names[-1] == "<module>", names
    assert len({str(entry["frames"]) for entry in large}) == 1
    frees = places(trace(snapshot, "free_requested"))
    assert {(filename, line) for _, filename, line in frees} == {(SCRIPT, line_of("drop"))}, frees
    releases = places(trace(snapshot, "segment_free"))
    assert {name for name, _, _ in releases} == {"empty_cache"}, releases


def allocations_only():
    snapshot = recorded("plain", "stacks:alloc")
    assert places(trace(snapshot, "alloc")) == {make()}
    # PyTorch's format gives a free the stack of its block where it has none of its own.
    assert not any(name and "drop" in name for name, _, _ in places(trace(snapshot, "free_requested")))


def sampled():
    snapshot = recorded("plain", f"stacks_every:{MIB}")
    large = [entry for entry in trace(snapshot, "alloc") if entry["size"] == 20 * MIB]
    small = [entry for entry in trace(snapshot, "alloc") if entry["size"] == 512]
    # Each large one is missed with probability e^-20; of 200 small ones, 0.1 are taken on average.
    assert places(large) == {make()}
    assert sum(innermost(entry) == make() for entry in small) < 10


def with_native_frames():
    allocs = trace(recorded("plain", "stacks_native:True"), "alloc")
    for entry in allocs:
        python = [frame["line"] != 0 for frame in entry["frames"]]
        first = python.index(True)
        assert all(python[first:]) and innermost({"frames": entry["frames"][first:]}) == make(), entry["frames"]
        native = entry["frames"][:first]
        assert "libtorch" in native[0]["filename"] and "+0x" in native[0]["filename"], native
        assert any("::empty" in frame["name"] for frame in native), native
        assert not any("libvramtape" in frame["filename"] for frame in native), native


def with_a_busy_thread():
    """Every one of the threads' stacks is there, and its own: the size says which thread it was."""
    made = {}
    for entry in trace(recorded("threads", "stacks:all"), "alloc"):
        names = [frame["name"] for frame in entry.get("frames", []) if frame["name"].startswith("made_")]
        assert len(names) == 1, entry
        made.setdefault(entry["size"], []).append(names[0])
    expected = {(seed + 1) * MIB: [f"made_{seed}_{number}" for number in range(40)] for seed in range(3)}
    assert made == expected, made


def around_a_fork():
    snapshot = recorded("fork", "stacks:all")
    allocs = trace(snapshot, "alloc")
    assert [entry["size"] for entry in allocs] == [MIB, 2 * MIB] and places(allocs) == {make()}, allocs


def a_hundred_thousand():
    """The memory of 100,000 distinct stacks: memory with them less memory without."""
    with tempfile.TemporaryDirectory() as folder:
        tape = os.path.join(folder, "run.vtape")

        def resident(conf, *arguments):
            return int(run_child("stacks/many.py", LIBRARY, *arguments, VRAMTAPE_CONF=f"device:sim,{conf}"))

        taken = resident("stacks:alloc", tape) - resident("stacks:none")
        info = subprocess.run([COMMAND, "info", tape, "--json"], check=True, capture_output=True, text=True).stdout
    stacks = int(re.search(r'"stacks": *(\d+)', info)[1])
    assert stacks > 99_000, f"only {stacks} stacks are on the tape: {info}"
    assert taken < 64 * MIB, f"{taken / MIB:.1f} MiB"
    return f"{stacks} stacks take {taken / MIB:.1f} MiB"


run_cases(
    [
        ("stacks.all", all_of_them),
        ("stacks.alloc", allocations_only),
        ("stacks.sampled", sampled),
        ("stacks.native", with_native_frames),
        ("stacks.busy_thread", with_a_busy_thread),
        ("stacks.fork", around_a_fork),
        ("stacks.hundred_thousand", a_hundred_thousand),
    ]
)
