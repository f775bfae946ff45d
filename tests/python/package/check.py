"""Shared by the scripts that test the installed package: cases that print PASS or FAIL, and the command beside it.

`cargo xtask test` runs each with a Python that has the package from its wheel, and sets VRAMTAPE_COMMAND and
VRAMTAPE_SNAPSHOT_CONTRACT.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TAPES = ROOT / "tests" / "data" / "tapes"
ONE_SHOT = TAPES / "one-shot-side-stream.vtape"
OUT_OF_MEMORY = TAPES / "max-split-size-expandable.vtape"
COMMAND = os.environ.get("VRAMTAPE_COMMAND", str(ROOT / "target" / "release" / "vramtape"))
CONTRACT = os.environ.get("VRAMTAPE_SNAPSHOT_CONTRACT", str(ROOT / "target" / "debug" / "snapshot-contract"))


def printed(*arguments):
    """The command's output with --json; the exit code of `fit` is its answer."""
    line = [COMMAND, *map(str, arguments), "--json"]
    done = subprocess.run(line, check=False, stdout=subprocess.PIPE)
    assert done.returncode in (0, 1), f"{line} ended with {done.returncode}"
    return without_times(json.loads(done.stdout))


def without_times(answer):
    """The answer without how long it took."""
    if isinstance(answer, dict):
        return {key: without_times(value) for key, value in answer.items() if key != "elapsed_s"}
    return [without_times(value) for value in answer] if isinstance(answer, list) else answer


def faults(snapshot):
    """The lines of the snapshot contract's checker; none for a snapshot with every field that a reader uses."""
    done = subprocess.run([CONTRACT, "--complete", str(snapshot)], check=False, capture_output=True, text=True)
    assert (done.returncode == 0) == (done.stdout + done.stderr == ""), done
    return (done.stdout + done.stderr).splitlines()


def raised(kind, call):
    """The text of the exception that the call has to raise."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def large_run(folder, buffers=5000):
    """A run that takes long under some settings: a problem of minimalloc, some hundred GiB of buffers at once."""
    path = Path(folder) / "large.csv"
    lines = (f"b{at},{at},{at + 500},{(at * 7919 % 1000 + 1) << 20}" for at in range(buffers))
    path.write_text("\n".join(["id,lower,upper,size", *lines, ""]))
    return path


# Which capacities are enough for a model that uses the number only a replay of each can say: minutes of them.
LONG = {"config": "garbage_collection_threshold:0.5", "checks": 1_000_000}


def run_cases(module):
    """Runs every function of a module whose name begins with test_, and ends the process with 1 if one failed."""
    failed = 0
    for name, case in list(vars(sys.modules[module]).items()):
        if not name.startswith("test_"):
            continue
        begun = time.monotonic()
        try:
            case()
            print(f"PASS {name[5:]} {time.monotonic() - begun:.1f} s", flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"FAIL {name[5:]}", flush=True)
    sys.exit(1 if failed else 0)
