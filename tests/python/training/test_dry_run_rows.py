"""Published figures of real GPUs, reproduced by `vramtape dry-run` on the preset of each GPU's class.

`dry_run/rows.tsv` has the figures: the published one, how far ours may be from it in percent (0: equal in all printed
digits), and ours in bytes, which has to be the same on every run. The column `run` names the rows of the test command;
VRAMTAPE_EVERY_ROW=1 runs all, and arguments name single ones. UPDATE_GOLDEN=1 writes our figures to the table.
VRAMTAPE_ROWS=FILE appends a line of JSON for each program: its seconds, host memory and figures.
"""

import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from harness import PACKAGE, ROOT, clean_environment, run_cases

TABLE = os.path.join(ROOT, "tests", "python", "dry_run", "rows.tsv")
PROGRAMS = os.path.join(ROOT, "tests", "python", "dry_run", "rows")
# Programs that need an environment beside this one.
ENVIRONMENTS = {"zero.py": "deepspeed"}
UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30}
IS_UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
WRITES = threading.Lock()


def table():
    with open(TABLE, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def interpreter(script):
    """The Python that a program is for."""
    beside = ENVIRONMENTS.get(script)
    return os.path.join(os.path.dirname(sys.prefix), beside, "bin", "python") if beside else sys.executable


def dry_run(gpu, program):
    """The figures that a program prints and those of the dry run's result, and what the run cost."""
    words = shlex.split(program)
    at = next(at for at, word in enumerate(words) if word.endswith(".py"))
    flags, script, arguments = words[:at], words[at], words[at + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        options = ["--quiet", "--gpu", gpu, "--json", result, *flags]
        tool = [interpreter(script), "-m", "vramtape", "dry-run"]
        command = [*tool, *options, os.path.join(PROGRAMS, script), *arguments]
        started_s = time.monotonic()
        with open(os.path.join(folder, "log"), "w+") as log:
            process = subprocess.Popen(command, env=clean_environment(**PACKAGE), cwd=folder, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            printed = log.read()
        seconds = time.monotonic() - started_s
        assert process.returncode == 0, f"{program} ended with {process.returncode}:\n{printed}"
        with open(result) as file:
            made = json.load(file)
    if "ranks" in made:
        made = made["ranks"][0]["result"]
    assert (made["verdict"], made["not_simulated"]) == ("fits", []), made
    (device,) = made["devices"]
    figures = dict(line.split()[1:] for line in printed.splitlines() if line.startswith("FIGURE "))
    figures.update({name: str(device[name]) for name in ("peak_allocated_bytes", "peak_reserved_bytes")})
    bounds = device["bounds"].get("peak_reserved_bytes")
    figures["reserved_range"] = (bounds["lower"], bounds["upper"]) if bounds else (device["peak_reserved_bytes"],) * 2
    return figures, {
        "seconds": round(seconds, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "host_mib": usage.ru_maxrss // 1024,
        "torch": made["torch_version"],
    }


def off_by(published, ours):
    """How far our figure is from the published one, in percent; 0 if it is equal in all digits that are printed."""
    number, _, unit = published.partition(" ")
    if not unit:
        return 0.0 if number == ours else float("inf")
    digits = len(number.partition(".")[2])
    value = int(ours) / UNITS[unit]
    return 0.0 if f"{value:.{digits}f}" == number else 100 * (value / float(number) - 1)


def check(rows):
    """A case that runs the program of some rows, and compares each."""

    def run():
        figures, cost = dry_run(rows[0]["gpu"], rows[0]["program"])
        wrong = []
        for row in rows:
            ours = figures[row["quantity"]]
            difference = off_by(row["published"], ours)
            if IS_UPDATE:
                row["ours"] = ours
            if ours != row["ours"]:
                wrong.append(f"{row['quantity']} was {row['ours']} and is {ours}")
            if row["quantity"] == "peak_reserved_bytes":
                lower, upper = figures["reserved_range"]
                published = int(row["published"].partition(" ")[0])
                if not lower <= published <= upper:
                    wrong.append(f"published is {published} reserved, outside the range of {lower} to {upper}")
            if abs(difference) > float(row["within %"]):
                wrong.append(f"{row['quantity']} is {ours}, published is {row['published']}: {difference:+.4f} %")
        note(rows[0], figures, cost)
        assert not wrong, "; ".join(wrong)
        equal = sum(off_by(row["published"], figures[row["quantity"]]) == 0 for row in rows)
        return f"{equal} of {len(rows)} equal, {cost['cpu_s']} s of CPU, {cost['host_mib']} MiB of host memory"

    return run


def note(row, figures, cost):
    path = os.environ.get("VRAMTAPE_ROWS")
    if path:
        line = json.dumps({"row": row["row"], "gpu": row["gpu"], "program": row["program"], **cost, "figures": figures})
        with WRITES, open(path, "a") as file:
            file.write(line + "\n")


def main():
    every = table()
    names = {row["row"] for row in every}
    wanted = set(sys.argv[1:])
    assert wanted <= names, f"no such row: {', '.join(wanted - names)}"
    if not wanted:
        is_every = os.environ.get("VRAMTAPE_EVERY_ROW") == "1"
        wanted = {row["row"] for row in every if is_every or row["run"] == "always"}
    cases = {}
    for row in every:
        if row["row"] in wanted:
            cases.setdefault(row["row"], []).append(row)
    try:
        run_cases([(name, check(rows)) for name, rows in cases.items()])
    finally:
        if IS_UPDATE:
            write(every)


def write(rows):
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
