#!/usr/bin/env python3
"""The GPU suite: real training in real PyTorch under every route and strategy, compared with PyTorch's own allocator.

    python3 run.py [--out FOLDER] [--minutes 16] [--what sessions|programs] [--simulated]

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
PLAN = "plan"  # Stitch with the plan that `plans.py` made, where there is one.
# Name, route, PyTorch's settings or ours. The first is what the others are compared with.
SESSIONS = (
    ("native", "native", ""),
    ("bridge, stitch", "bridge", STITCH),
    ("bridge, plan", "bridge", PLAN),
    ("bridge", "bridge", ""),
    ("native, expandable", "native", EXPANDABLE),
    ("bridge, expandable", "bridge", EXPANDABLE),
    ("pluggable", "pluggable", ""),
    ("observe", "observe", ""),
    ("pluggable, expandable", "pluggable", EXPANDABLE),
    ("observe, expandable", "observe", EXPANDABLE),
)
# Programs of `recordings`, and how each is allocated.
PROGRAMS = ("image_sizes", "experts", "adapters", "evaluation", "rl_phases", "long_context", "speculative")
# Those whose history under PyTorch's own allocator is kept too.
SNAPSHOTS = ("image_sizes", "experts")
POLICIES = (
    ("native", "native", ""),
    ("expandable", "native", EXPANDABLE),
    ("ours", "bridge", ""),
    ("stitch", "bridge", STITCH),
    ("plan", "bridge", PLAN),
)
# No session takes longer, unless it hangs.
SESSION_SECONDS_MAX = 150


def environment(settings):
    """This process's, without what would steer an allocator, and with what lies beside this file."""
    steering = ("VRAMTAPE_CONF", "PYTORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    if settings:
        kept["PYTORCH_CUDA_ALLOC_CONF" if settings == EXPANDABLE else "VRAMTAPE_CONF"] = settings
    if (HERE / "vramtape").is_dir():  # The bundle. In a checkout the caller says where things are.
        kept["VRAMTAPE_PACKAGE"] = str(HERE)
        kept["VRAMTAPE_LIBRARY"] = str(HERE / "vramtape" / "libvramtape.so")
    return kept


def planned(name):
    """The settings for a plan; None without it."""
    plan = HERE / "plans" / f"{name}.vplan"
    return f"{STITCH},plan:{plan}" if plan.is_file() else None


class Suite:
    """The results so far, written after every child: a run that is cut off leaves them."""

    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + 60 * options.minutes
        self.results = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}",
            "simulated": options.simulated,
            "sessions": {},
            "programs": {},
        }
        options.out.mkdir(parents=True, exist_ok=True)
        if options.add:
            before = json.loads((options.out / "results.json").read_text())
            self.results.update({kind: before[kind] for kind in ("sessions", "programs")})

    def run_sessions(self):
        for name, route, settings in SESSIONS:
            if settings == PLAN:
                settings = planned("training")
            if settings is None:
                continue
            parts = [argument for part in self.options.part or () for argument in ("--part", part)]
            self.child("sessions", name, ["session.py", route, *parts], settings)

    def run_programs(self):
        """Every program under every policy. The tapes of ours go to the folder."""
        for program in PROGRAMS:
            for policy, route, settings in POLICIES:
                if settings == PLAN:
                    settings = planned(program)
                if settings is None:
                    continue
                if route == "bridge":
                    tape = (self.options.out / f"{program}-{policy}.vtape").absolute()
                    settings = ",".join(filter(None, (settings, f"record:file,stacks:none,tape:{tape}")))
                self.child("programs", f"{program}, {policy}", ["program.py", route, program], settings)
        for program in SNAPSHOTS:
            snapshot = str((self.options.out / f"{program}.pickle").absolute())
            arguments = ["program.py", "native", program, "--snapshot", snapshot]
            self.child("programs", f"{program}, native with history", arguments, "")

    def child(self, kind, name, arguments, settings):
        """Adds the result of one process, in the time that is left, unless others were asked for."""
        if self.options.only and name not in self.options.only:
            return
        left = self.end - time.monotonic()
        if left < 5:
            self.results[kind][name] = {"skipped": f"no time left of {self.options.minutes} minutes"}
            return
        print(f"{name} ...", end=" ", flush=True)
        began = time.monotonic()
        limit = left if self.options.simulated else min(left, SESSION_SECONDS_MAX)
        found = run(arguments + ["--simulated"] * self.options.simulated, settings, limit)
        print(f"{time.monotonic() - began:.0f} s{' FAILED' * ('failed' in found)}", flush=True)
        self.results[kind][name] = found
        self.write()

    def write(self):
        self.results["failures"] = report.failures(self.results)
        (self.options.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        (self.options.out / "results.md").write_text(report.markdown(self.results))


def run(arguments, settings, seconds):
    """What one process found; `failed` if it found nothing."""
    command = [sys.executable, str(HERE / arguments[0]), *arguments[1:]]
    try:
        child = subprocess.run(command, env=environment(settings), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        return {"failed": f"not done after {seconds:.0f} s", "output": str(error.stderr)[-4000:]}
    if child.returncode != 0:
        return {"failed": f"ended with {child.returncode}", "output": (child.stdout + child.stderr)[-4000:]}
    return json.loads(child.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--minutes", type=float, default=16, help="the most that everything may take")
    parser.add_argument("--simulated", action="store_true", help="a rehearsal on the simulated driver")
    parser.add_argument("--what", choices=("sessions", "programs"), help="only these; the default is both")
    parser.add_argument("--only", action="append", metavar="NAME", help="a session, or a program and its policy")
    parser.add_argument("--add", action="store_true", help="add to the results in the folder, and replace")
    parser.add_argument("--part", action="append", help="of the sessions only this part")
    options = parser.parse_args()
    suite = Suite(options)
    if options.what != "programs":
        suite.run_sessions()
    if options.what != "sessions":
        suite.run_programs()
    suite.write()
    results = suite.results
    for failure in results["failures"]:
        print(f"FAIL {failure}")
    print(f"{len(results['failures'])} failures; {options.out / 'results.md'}")
    sys.exit(1 if results["failures"] else 0)


if __name__ == "__main__":
    main()
