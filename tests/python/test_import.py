"""Snapshots of a real PyTorch are imported: every encoding, with the peaks that PyTorch itself counted."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness

# Environment of each scenario of snapshot/dump.py, and what the import has to say of it.
SCENARIOS = {
    "plain": ({"VRAMTAPE_SIM_EVENT_LAG": "3"}, ["--no-empty-cache", "waited for another stream"]),
    "expandable": ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, ["--no-empty-cache"]),
    "private_pool": ({}, ["scopes of private pools"]),
    "mid_run": ({}, ["begins mid-run"]),
    "overflow": ({}, ["begins mid-run"]),
    "two_devices": ({"VRAMTAPE_SIM_DEVICES": "2"}, []),
    "annotated": ({}, []),
    "out_of_memory": ({}, []),
}
# Where the trace begins before the run does, or the pool's events are gone, PyTorch's peaks are of what it cannot say.
PARTIAL = ("mid_run", "overflow")


def vramtape(*arguments):
    done = subprocess.run([harness.COMMAND, *arguments], text=True, capture_output=True)
    assert done.returncode == 0, f"vramtape {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def info(path):
    return json.loads(vramtape("info", "--json", path))


def imported(name, folder):
    settings, notes = SCENARIOS[name]
    path = folder / f"{name}.pickle"
    stats = json.loads(harness.run_served("snapshot/dump.py", name, path, **settings).splitlines()[-1])
    found = info(path)
    for device in found["devices"]:
        counted = stats[device["id"]]
        ours = (device["peak_allocated_bytes"], device["peak_reserved_bytes"])
        theirs = (counted["allocated_bytes.all.peak"], counted["reserved_bytes.all.peak"])
        assert name in PARTIAL or ours == theirs, f"device {device['id']}: {ours}, PyTorch counted {theirs}"
        assert device["records"] > 10, device
    assert len(found["devices"]) == (2 if name == "two_devices" else 1)
    for note in notes:
        assert any(note in said for said in found["meta"]["inferred"]), (note, found["meta"]["inferred"])
    for wrong in ("do not fit", "contradict", "not known here", "is not understood"):
        assert not any(wrong in said for said in found["meta"]["inferred"]), found["meta"]["inferred"]
    encoded = info(f"{path}.4")["devices"]  # One event later: the dump itself is one.
    for end in (0, 1, 2, 3, 5, "gz", "json"):
        assert info(f"{path}.{end}")["devices"] == encoded, f"encoding {end}"
    tape = folder / f"{name}.vtape"
    vramtape("import", path, "-o", tape)
    assert info(tape)["devices"] == found["devices"]
    for device in found["devices"]:
        table = json.loads(vramtape("compare", "--json", "--device", str(device["id"]), path))
        recorded = table["rows"][table["recorded_row"]]
        # PyTorch's own policy from the same start reserves what PyTorch did.
        assert recorded["peak_reserved_bytes"] == device["peak_reserved_bytes"], (recorded, device)
        assert table["inferred"] == found["meta"]["inferred"]
    return f"({sum(device['records'] for device in found['devices'])} records)"


with tempfile.TemporaryDirectory() as folder:
    cases = [(f"import.{name}", lambda name=name: imported(name, pathlib.Path(folder))) for name in SCENARIOS]
    harness.run_cases(cases)
