"""The programs of `recordings/further.py` under all strategies, as a table.

By hand, after `cargo build --release` (`harness.py`); a seed takes minutes. VRAMTAPE_KEEP=FOLDER keeps the tapes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from harness import COMMAND, PACKAGE, clean_environment, run_python

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recordings", "further.py")
PAGE_BYTES = 2 << 20
STRATEGIES = ("native", "expandable", "stitch")
# Steps of drawn shapes, and executions of the same step after them: the first three, one more, and so on.
VARIED, REPEATED = 6, (3, 4, 11, 24)
# Steps of drawn shapes only.
DRAWN = (16, 46)
COLUMNS = (
    "program | seed | live GiB | native | expandable | stitch | planned | calls in the 4th | 5th to 11th | later | "
    "OOMs at 1.02 | at 1.05 | drawn | maps a step"
)
LIVE_COLUMNS = "program | seed | live GiB | native at 1.02 | stitch at 1.02 | native at 1.05 | stitch at 1.05"


def report(*arguments):
    return json.loads(subprocess.check_output([COMMAND, *arguments], text=True, stderr=subprocess.DEVNULL))


def replay(tape, strategy, capacity="unlimited"):
    return report("replay", "--json", f"--capacity={capacity}", f"--strategy={strategy}", tape)


def record(folder, name, seed, varied, repeated):
    tape = os.path.join(folder, f"{name}-{seed}-{varied}-{repeated}.vtape")
    if not os.path.exists(tape):
        flags = ("--sim", "-q", "--conf", "stacks:none", "-o", tape)
        run_python("-m", "vramtape", "run", *flags, PROGRAM, name, str(seed), str(varied), str(repeated), **PACKAGE)
    return tape


def row(folder, name, seed):
    tapes = [record(folder, name, seed, VARIED, repeated) for repeated in REPEATED]
    calls = [replay(tape, "stitch")["driver_calls"] for tape in tapes]
    reports = [replay(tapes[-1], strategy) for strategy in STRATEGIES]
    plan = os.path.join(folder, f"{name}-{seed}.vplan")
    planned = report("plan", "--json", "--force", "--capacity=unlimited", "-o", plan, tapes[-1])["runs"][0]["planned"]
    live_bytes = reports[0]["peak_live_bytes"]

    def refusals(factor):
        pages = -(-int(live_bytes * factor) // PAGE_BYTES)
        return [replay(tapes[-1], strategy, f"{pages * PAGE_BYTES}B")["num_ooms"] for strategy in STRATEGIES]

    first, all_drawn = (replay(record(folder, name, seed, drawn, 0), "stitch") for drawn in DRAWN)
    maps = (all_drawn["driver_maps"] - first["driver_maps"]) / (DRAWN[1] - DRAWN[0])
    efficiencies = [f"{one['efficiency']:.4f}" for one in (*reports, planned)]
    more = [after - before for before, after in zip(calls, calls[1:])]
    tight = [str(refusals(factor)) for factor in (1.02, 1.05)]
    drawn = f"{all_drawn['efficiency']:.4f}"
    return (name, seed, f"{live_bytes / 2**30:.2f}", *efficiencies, *more, *tight, drawn, f"{maps:.0f}")


def live_row(folder, name, seed):
    """Which runs complete on a simulated GPU with little more memory than is live. Each tape replays as it was."""
    recorded = record(folder, name, seed, VARIED, REPEATED[0])
    arguments = (PROGRAM, name, str(seed), str(VARIED), str(REPEATED[0]))
    live_bytes = replay(recorded, "native")["peak_live_bytes"]

    def completes(factor, strategy):
        tape = os.path.join(folder, f"{name}-{seed}-{strategy}-{factor}.vtape")
        memory = f"--sim={-(-int(live_bytes * factor) // 2**20)}MiB"
        flags = ("-q", "-f", "--conf", f"stacks:none,strategy:{strategy}", "-o", tape)
        line = [sys.executable, "-m", "vramtape", "run", memory, *flags, *arguments]
        ended = subprocess.run(line, env=clean_environment(**PACKAGE), capture_output=True)
        subprocess.run([COMMAND, "verify", tape], check=True, capture_output=True)
        return ended.returncode == 0 and report("replay", "--json", tape)["num_ooms"] == 0

    answers = [completes(factor, strategy) for factor in (1.02, 1.05) for strategy in ("native", "stitch")]
    return (name, seed, f"{live_bytes / 2**30:.2f}", *("yes" if answer else "no" for answer in answers))


def main(seeds, is_live):
    names = subprocess.check_output([sys.executable, PROGRAM], text=True).split()
    folder = os.environ.get("VRAMTAPE_KEEP") or tempfile.mkdtemp()
    columns, make = (LIVE_COLUMNS, live_row) if is_live else (COLUMNS, row)
    print(f"| {columns} |\n|{'---|' * (columns.count('|') + 1)}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(make, folder, name, seed) for seed in seeds for name in names]
        for job in jobs:
            print("|", " | ".join(map(str, job.result())), "|", flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("seeds", type=int, nargs="*", default=[5], help="seeds of the shapes")
parser.add_argument("--live", action="store_true", help="run them with little memory in place of replays")
options = parser.parse_args()
main(options.seeds, options.live)
