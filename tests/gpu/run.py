#!/usr/bin/env python3
"""The GPU suite: real training in real PyTorch under every route and strategy, compared with PyTorch's own allocator.

    python3 run.py [--out FOLDER] [--minutes 8] [--simulated]

Needs python3 with torch and a GPU; everything else lies beside this file. Writes results.json and results.md to the
folder, and ends with 1 where something failed that is not skipped with its reason. With --simulated it is a rehearsal
on the simulated driver that VRAMTAPE_SIMCUDA names: small, and values are not compared.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
EXPANDABLE = "expandable_segments:True"
STITCH = "strategy:stitch"
# Name, route, PyTorch's settings or ours. The first is what the others are compared with.
SESSIONS = (
    ("native", "native", ""),
    ("native, expandable", "native", EXPANDABLE),
    ("pluggable", "pluggable", ""),
    ("pluggable, expandable", "pluggable", EXPANDABLE),
    ("bridge", "bridge", ""),
    ("bridge, expandable", "bridge", EXPANDABLE),
    ("bridge, stitch", "bridge", STITCH),
    ("observe", "observe", ""),
    ("observe, expandable", "observe", EXPANDABLE),
)
# No session takes longer, unless it hangs.
SESSION_SECONDS_MAX = 150


def environment(settings):
    """This process's, without what would steer an allocator, and with what lies beside this file."""
    steering = ("VRAMTAPE_CONF", "PYTORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    if settings:
        kept["VRAMTAPE_CONF" if settings == STITCH else "PYTORCH_CUDA_ALLOC_CONF"] = settings
    if (HERE / "vramtape").is_dir():  # The bundle. In a checkout the caller says where things are.
        kept["VRAMTAPE_PACKAGE"] = str(HERE)
        kept["VRAMTAPE_LIBRARY"] = str(HERE / "vramtape" / "libvramtape.so")
    return kept


def session(route, settings, simulated, seconds):
    """What one process found; `failed` if it found nothing."""
    command = [sys.executable, str(HERE / "session.py"), route] + ["--simulated"] * simulated
    try:
        child = subprocess.run(command, env=environment(settings), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {seconds:.0f} s"}
    if child.returncode != 0:
        return {"failed": f"ended with {child.returncode}", "output": (child.stdout + child.stderr)[-4000:]}
    return json.loads(child.stdout.splitlines()[-1])


def run(names, simulated, minutes):
    """Every session, while there is time."""
    end = time.monotonic() + 60 * minutes
    found = {}
    for name, route, settings in SESSIONS:
        if names and name not in names:
            continue
        left = end - time.monotonic()
        if left < 5:
            found[name] = {"skipped": f"no time left of {minutes} minutes"}
            continue
        print(f"{name} ...", end=" ", flush=True)
        began = time.monotonic()
        limit = left if simulated else min(left, SESSION_SECONDS_MAX)
        found[name] = session(route, settings, simulated, limit)
        print(f"{time.monotonic() - began:.0f} s", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--minutes", type=float, default=8, help="the most that everything may take")
    parser.add_argument("--simulated", action="store_true", help="a rehearsal on the simulated driver")
    parser.add_argument("--only", action="append", metavar="SESSION", help=", ".join(name for name, _, _ in SESSIONS))
    options = parser.parse_args()
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "simulated": options.simulated,
        "sessions": run(options.only, options.simulated, options.minutes),
    }
    results["failures"] = report.failures(results)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "results.md").write_text(report.markdown(results))
    for failure in results["failures"]:
        print(f"FAIL {failure}")
    print(f"{len(results['failures'])} failures; {options.out / 'results.md'}")
    sys.exit(1 if results["failures"] else 0)


if __name__ == "__main__":
    main()
