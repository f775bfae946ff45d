"""Training scripts of other people, and exercises of courses, as they stand: under `python -m vramtape run` and
`record` they need what they need under PyTorch's own allocator, to the byte, and their one tape replays to that. Under
`stitch` they reserve no more, and the tape replays to it. Long trainings without a leak raise no alarm.

VRAMTAPE_EVERY_ROUTE=1 runs each of them under every route, which takes some minutes.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from harness import COMMAND, PACKAGE, run_cases, run_child, run_python

# The arguments of `python -m vramtape` for each route.
ROUTES = {
    "bridge": ("run", "--route", "bridge"),
    "pluggable": ("run", "--route", "pluggable"),
    "observe": ("record",),
    "stitch": ("run", "--route", "bridge", "--conf", "strategy:stitch"),
}
EVERY = tuple(ROUTES)
# Each script, and the routes that it always runs under.
SCRIPTS = {
    "llama": (("llama.py",), ("bridge", "observe", "stitch")),
    "unet": (("unet.py",), ("bridge", "pluggable")),
    "resnet": (("resnet.py",), ("bridge", "stitch")),
    "holes": (("holes.py",), ("bridge", "pluggable", "observe")),
    "checkpointing": (("checkpointing.py",), ("bridge", "stitch")),
    "workers_forked": (("workers.py", "fork"), ("bridge",)),
    "workers_spawned": (("workers.py", "spawn"), ("bridge", "stitch")),
}
# It asserts that no hole is large enough, which `stitch` does not need.
NATIVE_ONLY = ("holes",)
CALLBACKS = {
    "huggingface": (("huggingface.py",), ("bridge", "stitch")),
    "lightning": (("lightning_loop.py",), ("observe",)),
}


def native(script, *arguments):
    """The script's report under PyTorch's own allocator."""
    return reported(run_child("training/native.py", script, *arguments, **PACKAGE))


def ours(route, folder, script, *arguments):
    """Its report under vramtape; the folder is created, and gets its tape."""
    os.mkdir(folder)
    start = ("-m", "vramtape", *ROUTES[route], "-o", os.path.join(folder, "run.vtape"))
    return reported(run_python(*start, os.path.join(HERE, script), *arguments, **PACKAGE))


def reported(output):
    """The last line of JSON that a script printed."""
    return json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("{")))


def answer(verb, tape):
    run = subprocess.run([COMMAND, verb, tape, "--json"], text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def same_as_native(name, routes, script):
    expected = native(*script)
    for route in routes:
        folder = f"{name}-{route}"
        found = ours(route, folder, *script)
        reserved_bytes = found["peak_reserved_bytes"]
        same = is_no_more if route == "stitch" else dict.__eq__
        assert same(found, expected), f"{route}: {found}; PyTorch's own allocator: {expected}"
        # One process allocated. A worker of DataLoader does not, and leaves nothing.
        assert os.listdir(folder) == ["run.vtape"], f"{route}: {os.listdir(folder)}"
        peak_bytes = answer("replay", os.path.join(folder, "run.vtape"))["peak_reserved_bytes"]
        assert peak_bytes == reserved_bytes, f"{route}: the tape's replay reserves {peak_bytes}, not {reserved_bytes}"
    return f"{expected['peak_reserved_bytes'] >> 20} MiB ({', '.join(routes)})"


def is_no_more(found, expected):
    """Whether each number of bytes is at most the other. How many pieces they are made of is the strategy's own."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            is_no_more(found[key], expected[key]) for key in expected if key != "device_allocs"
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_no_more, found, expected))
    return found <= expected


def callback(name, routes, script):
    """A page is beside the snapshot, and with vramtape a tape."""
    snapshot = "memory-rank0-device0-step3"
    expected = native(*script)
    assert expected["snapshots"] == [f"{snapshot}.html", f"{snapshot}.pickle"], expected
    for route in routes:
        found = ours(route, f"{name}-{route}", *script)
        assert found["snapshots"] == [*expected["snapshots"], f"{snapshot}.vtape"], f"{route}: {found}"
    return f"({', '.join(routes)})"


def no_leak(name):
    """300 steps of a training that leaks nothing."""
    tape = f"long-{name}.vtape"
    run_python("-m", "vramtape", "run", "-q", "-o", tape, os.path.join(HERE, "long.py"), name, **PACKAGE)
    found = answer("leaks", tape)
    assert (found["verdict"], found["steps"], found["rows"]) == ("no_growth", 300, []), found


def case(check, name, script, routes):
    if os.environ.get("VRAMTAPE_EVERY_ROUTE") and name not in NATIVE_ONLY:
        routes = EVERY
    return (f"training.{name}", lambda: check(name, routes, script))


cases = [case(same_as_native, name, *row) for name, row in SCRIPTS.items()]
cases += [case(callback, name, *row) for name, row in CALLBACKS.items()]
cases += [(f"training.no_leak.{name}", lambda name=name: no_leak(name)) for name in ("llama", "resnet", "gpt")]
run_cases(cases)
