"""The GPU suite, rehearsed on the simulated driver: every part runs, and every route ends with the numbers of PyTorch's
own allocator. VRAMTAPE_EVERY_ROUTE=1 rehearses all of its sessions.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from harness import LIBRARY, ROOT, SIMCUDA, clean_environment, run_cases

SUITE = Path(ROOT, "tests/gpu/run.py")
SESSIONS = ("native", "native, expandable", "pluggable", "bridge", "bridge, expandable", "bridge, stitch", "observe")
PROGRAMS = ("image_sizes, native", "image_sizes, ours", "image_sizes, stitch", "image_sizes, native with history")
DRIVER_PARTS = {"device", "price", "pages", "busy", "aliases", "persistent"}
MINUTES = "9"  # A session takes ten seconds on an idle machine.


def rehearsal():
    package = os.path.join(ROOT, "python")
    settings = {"VRAMTAPE_LIBRARY": LIBRARY, "VRAMTAPE_SIMCUDA": SIMCUDA, "VRAMTAPE_PACKAGE": package}
    names = () if os.environ.get("VRAMTAPE_EVERY_ROUTE") else SESSIONS + PROGRAMS
    only = [argument for name in names for argument in ("--only", name)]
    command = [sys.executable, str(SUITE), "--simulated", "--minutes", MINUTES, "--out", "gpu", *only]
    run = subprocess.run(command, env=clean_environment(**settings), capture_output=True, text=True)
    if run.returncode != 0:
        raise AssertionError(f"{run.stdout}{run.stderr}")
    with open("gpu/results.json") as file:
        results = json.load(file)
    sessions, programs = results["sessions"], results["programs"]
    assert sessions.keys() >= set(SESSIONS), sessions
    for name, session in sessions.items():
        parts = session["parts"]
        assert len(parts.keys() - DRIVER_PARTS) == 9, (name, list(parts))
        if session["route"] != "pluggable":
            assert [parts["sharing"][kind] for kind in ("segment", "pages")] == ["ok", "ok"], (name, parts["sharing"])
        if name.endswith("stitch"):  # It reserves less, and in other places.
            continue
        is_expandable = name.endswith("expandable")
        native = sessions["native, expandable" if is_expandable else "native"]["parts"]
        for part, numbers in parts.items():
            for key in numbers.keys() & {"peak_reserved_bytes", "peak_allocated_bytes", "num_ooms", "segments_left"}:
                assert numbers[key] == native[part][key], (name, part, key, numbers, native[part])
    native, ours, stitch, history = (programs[name] for name in PROGRAMS)
    assert all(ours[key] == history[key] == native[key] for key in native if key.startswith("peak")), programs
    assert stitch["peak_reserved_bytes"] < native["peak_reserved_bytes"] / 2, programs
    limited = {
        name: results["limits"][name]["out_of_memory"] for name in ("image_sizes, native", "image_sizes, stitch")
    }
    assert limited["image_sizes, native"] and limited["image_sizes, stitch"] is None, limited
    assert os.path.getsize("gpu/image_sizes.pickle") > 0 and os.path.getsize("gpu/image_sizes-stitch.vtape") > 0
    assert Path("gpu/results.md").read_text().count("| ok |") > 0
    return f"({len(sessions)} sessions, {len(programs)} programs)"


def verdict():
    """A check that fails under `stitch` alone, or of what it relies on, turns it off; any other does not."""
    sys.path.insert(0, str(SUITE.parent))
    import report

    def judged(**failed):
        sessions = {
            name: {"parts": {"training": {}, **{part: {"failed": "wrong"} for part in failed.get(kind, ())}}}
            for kind, name in (("native", "native"), ("ours", "bridge, stitch"))
        }
        results = {"simulated": False, "sessions": sessions, "programs": {}, "limits": {}, "batches": {}}
        (line, _) = report.verdict(results | {"failures": report.failures(results)})
        return line

    assert "passed" in judged() and "passed" in judged(native=("graphs",), ours=("graphs",))
    assert judged(ours=("graphs",)).endswith("bridge, stitch: graphs: wrong.")
    assert "is off for this GPU" in judged(native=("aliases",))


run_cases([("gpu.rehearsal", rehearsal), ("gpu.verdict", verdict)])
