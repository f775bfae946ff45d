#!/usr/bin/env python3
"""The GPU suite: real training in real PyTorch under every route and strategy, compared with PyTorch's own allocator.

    python3 run.py [--out FOLDER] [--minutes 16] [--what KIND] [--simulated]

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
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import report
from children import EXPANDABLE, HERE, KINDS

# No process takes longer, unless it hangs.
CHILD_SECONDS_MAX = 150


def environment(child):
    """This process's, without what would steer an allocator, and with what lies beside this file."""
    steering = ("VRAMTAPE_CONF", "PYTORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    if child.settings:
        kept["PYTORCH_CUDA_ALLOC_CONF" if child.settings == EXPANDABLE else "VRAMTAPE_CONF"] = child.settings
    if (HERE / "vramtape").is_dir():  # The bundle. In a checkout the caller says where things are.
        kept["VRAMTAPE_PACKAGE"] = str(HERE)
        kept["VRAMTAPE_LIBRARY"] = str(HERE / "vramtape" / "libvramtape.so")
    return kept | child.variables


class Suite:
    """The results so far, written after every child: a run that is cut off leaves them."""

    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + 60 * options.minutes
        self.lock = threading.Lock()
        self.results = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}",
            "simulated": options.simulated,
            **{kind: {} for kind in KINDS},
        }
        options.out.mkdir(parents=True, exist_ok=True)
        if options.add:
            before = json.loads((options.out / "results.json").read_text())
            self.results.update({kind: before[kind] for kind in KINDS})

    def run(self, kind):
        """All children of a kind that are asked for, some at a time. Each round runs every one once."""
        only = self.options.only
        wanted = [child for child in KINDS[kind](self.options, self.results) if not only or child.name in only]
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for _ in range(self.options.rounds):
                list(pool.map(self.child, wanted))

    def child(self, child):
        """Adds the result of one process, in the time that is left."""
        left = self.end - time.monotonic()
        if left < 5:
            found = {"skipped": f"no time left of {self.options.minutes} minutes"}
        else:
            began = time.monotonic()
            limit = left if self.options.simulated else min(left, CHILD_SECONDS_MAX)
            found = run(child, self.options.simulated, limit)
            print(f"{child.name} {time.monotonic() - began:.0f} s{' FAILED' * ('failed' in found)}", flush=True)
        with self.lock:
            self.add(self.results[child.kind], child.name, found)
            self.write()

    @staticmethod
    def add(results, name, found):
        """Adds parts of a session, and the time of another round. A failure of a process stays."""
        before = results.setdefault(name, found)
        if before is found or "failed" in before or "skipped" in found:
            return
        if "parts" in before and "parts" in found:
            before["parts"].update(found["parts"])
        elif before.get("later_step_ms") and found.get("later_step_ms"):
            before.setdefault("rounds_ms", [before["later_step_ms"]]).append(found["later_step_ms"])
        else:
            results[name] = found

    def write(self):
        self.results["failures"] = report.failures(self.results)
        (self.options.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        (self.options.out / "results.md").write_text(report.markdown(self.results))


def run(child, simulated, seconds):
    """What one process found; `failed` if it found nothing."""
    script, *arguments = child.arguments
    command = [sys.executable, str(HERE / script), *arguments, *["--simulated"] * simulated]
    try:
        done = subprocess.run(command, env=environment(child), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        return {"failed": f"not done after {seconds:.0f} s", "output": str(error.stderr)[-4000:]}
    if done.returncode != 0:
        return {"failed": f"ended with {done.returncode}", "output": (done.stdout + done.stderr)[-4000:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--minutes", type=float, default=16, help="the most that everything may take")
    parser.add_argument("--simulated", action="store_true", help="a rehearsal on the simulated driver")
    parser.add_argument("--what", action="append", choices=KINDS, help="only this kind; may be repeated")
    parser.add_argument("--only", action="append", metavar="NAME", help="a session, or a program and its policy")
    parser.add_argument("--add", action="store_true", help="add to the results in the folder")
    parser.add_argument("--part", action="append", help="of the sessions only this part")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, where times do not matter")
    parser.add_argument("--rounds", type=int, default=1, help="run all programs this often, one round after another")
    options = parser.parse_args()
    suite = Suite(options)
    for kind in options.what or KINDS:
        suite.run(kind)
    suite.write()
    results = suite.results
    for failure in results["failures"]:
        print(f"FAIL {failure}")
    print(f"{len(results['failures'])} failures; {options.out / 'results.md'}")
    sys.exit(1 if results["failures"] else 0)


if __name__ == "__main__":
    main()
