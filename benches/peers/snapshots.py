"""The cost of importing a snapshot: vramtape and PyTorch's own Python readers in one run, each in a process of its own.

    python benches/peers/snapshots.py [--entries N] [--rounds N] [--snapshot FILE] [--json]

`cargo xtask bench --snapshots` runs it. A real PyTorch records the history on the simulated driver and dumps it (a
minute or two for a million entries); then the subjects take turns. A time is the best of the rounds, on the clock and
on the processor (which counts: others on the machine only add to the former), a size the most memory that the process
held beyond what it held before it opened the file. Exits with 1 where the import takes more than 1.5 s for 100 MB of
file, or more than three times the file's size.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "python"))

import harness

IMPORT = os.environ.get("VRAMTAPE_IMPORT", os.path.join(harness.BUILT, "import"))
SUBJECTS = ("pickle.load", "pickle.load, _memory_viz stats", "pickle.load, _memory_viz trace", "vramtape")
# Most that an import may take for each byte of its file: seconds, and bytes.
SECONDS_MAX, BYTES_MAX = 1.5 / 100e6, 3.0


def record(path, entries):
    """Makes a snapshot of about this many entries, 100 bytes each: stacks of 2 to 14 frames, 2,000 live tensors."""
    harness.load_simcuda()
    import torch

    torch.empty(1, device="cuda")
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=entries)
    dice, live = random.Random(7), []

    def make(depth, size):
        return make(depth - 1, size) if depth else torch.empty(size, dtype=torch.uint8, device="cuda")

    for _ in range(entries // 3):
        live.append(make(dice.randrange(1, 13), dice.randrange(1, 1 << dice.randrange(8, 22))))
        if len(live) > 2000:
            live.pop(dice.randrange(len(live)))
    torch.cuda.memory._dump_snapshot(path)


def held():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(subject, path):
    """Prints what one reading took."""
    import pickle

    from torch.cuda import _memory_viz

    before, start, cpu = held(), time.perf_counter(), time.process_time()
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    if subject.endswith("stats"):
        _memory_viz.segsum(snapshot)
    elif subject.endswith("trace"):
        _memory_viz.trace(snapshot)
    took = {"best_s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    print(json.dumps({**took, "peak_bytes": held() - before}))


def once(subject, path):
    child = [sys.executable, __file__, "--child", subject, "--snapshot", path]
    command = [IMPORT, path] if subject == "vramtape" else child
    done = subprocess.run(command, env=harness.clean_environment(), text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{subject} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(path, rounds):
    size, taken = os.path.getsize(path), {subject: [] for subject in SUBJECTS}
    for number in range(rounds):
        for subject in SUBJECTS:
            print(f"round {number + 1} of {rounds}: {subject}", file=sys.stderr)
            taken[subject].append(once(subject, path))

    def least(subject, key):
        return min(one[key] for one in taken[subject])

    rows = [
        {
            "subject": subject,
            "best_s": least(subject, "best_s"),
            "cpu_s": least(subject, "cpu_s"),
            "to_pickle_load": least(subject, "cpu_s") / least("pickle.load", "cpu_s"),
            "cpu_s_for_100_MB": least(subject, "cpu_s") / size * 100e6,
            "peak_bytes": least(subject, "peak_bytes"),
            "peak_to_file": least(subject, "peak_bytes") / size,
        }
        for subject in SUBJECTS
    ]
    return {"file_bytes": size, "rounds": rounds, "rows": rows}


def show(result):
    print(f"a snapshot of {result['file_bytes'] / 1e6:.1f} MB, best of {result['rounds']} rounds")
    print(f"{'':32} {'s':>8} {'cpu s':>8} {'/ load':>7} {'cpu s/100 MB':>13} {'memory':>9} {'/ file':>7}")
    for row in result["rows"]:
        memory = f"{row['peak_bytes'] / 2**20:.0f} MiB"
        print(
            f"{row['subject']:32} {row['best_s']:8.3f} {row['cpu_s']:8.3f} {row['to_pickle_load']:7.2f} "
            f"{row['cpu_s_for_100_MB']:13.2f} {memory:>9} {row['peak_to_file']:7.2f}"
        )


parser = argparse.ArgumentParser()
parser.add_argument("--entries", type=int, default=1_000_000)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--snapshot", help="an existing file; one that is not there is made")
parser.add_argument("--json", action="store_true")
parser.add_argument("--child", help=argparse.SUPPRESS)
options = parser.parse_args()
if options.child == "record":
    record(options.snapshot, options.entries)
elif options.child:
    read(options.child, options.snapshot)
else:
    with tempfile.TemporaryDirectory() as folder:
        path = options.snapshot or os.path.join(folder, "snapshot.pickle")
        if not os.path.exists(path):
            print(f"PyTorch records {options.entries} entries and dumps them", file=sys.stderr)
            maker = ["--child", "record", "--snapshot", path, "--entries", str(options.entries)]
            subprocess.run([sys.executable, __file__, *maker], env=harness.clean_environment(), check=True)
        result = measure(path, options.rounds)
        ours = result["rows"][-1]
        if options.json:
            print(json.dumps(result, indent=2))
        else:
            show(result)
        within = ours["cpu_s"] <= SECONDS_MAX * result["file_bytes"] and ours["peak_to_file"] <= BYTES_MAX
        sys.exit(0 if within else 1)
