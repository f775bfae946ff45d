"""Ten planted leaks are found with their code, their module and what holds them; without them there is no alarm."""

import json
import os

from harness import PACKAGE, ROOT, run_cases, run_served

SCRIPT = os.path.join(ROOT, "tests", "python", "leaks", "plant.py")
# The line that allocates, and the parts of the chain that holds its blocks.
PLANTED = {
    "list": ("global __main__.history", "["),
    "cache": ("global __main__.cache", "entries"),
    "graph": ("global __main__.losses", "autograd graph"),
    "hook": ("hook",),
    "closure": ("global __main__.callbacks", "closure of "),
    "traceback": ("global __main__.errors", "exception ValueError", "traceback", "local scratch of fail"),
    "kv": ("global __main__.state", "['kv']"),
    "workspace": ("class __main__.Convolution", "['workspaces']"),
    "dict": ("global __main__.registry", "['step "),
    "cycle": ("reference cycle", "Node.tensor"),
}


def line_of(mark):
    with open(SCRIPT) as file:
        return next(number for number, line in enumerate(file, 1) if f"# LINE {mark}" in line)


def leaks(kind):
    conf = "stacks:alloc,marks:modules"
    printed = run_served("leaks/plant.py", kind, VRAMTAPE_CONF=conf, **PACKAGE)
    return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))


def chains(row):
    return [holder["text"] for holder in row["holders"]]


def planted_leaks_are_found():
    found = leaks("leaking")
    assert found["verdict"] == "growth" and found["steps"] == 30, found["verdict"]
    # Most lines call a function that allocates: they are its callers.
    for name, parts in PLANTED.items():
        place = f"plant.py:{line_of(name)} "
        rows = [row for row in found["rows"] if place in f"{row['label']} < {row['callers']} "]
        assert rows, (name, [row["label"] for row in found["rows"]])
        held = [row for row in rows if any(all(part in chain for part in parts) for chain in chains(row))]
        assert held, (name, [chains(row) for row in rows])
        row = held[0]
        assert row["since"] <= 3 and row["confidence"] > 0.999, (name, row["since"], row["confidence"])
        if name in ("graph", "hook"):
            assert row["modules"] and row["modules"] != ["outside any module"], (name, row["modules"])
    assert any(row["module"] != "outside any module" for row in found["modules"]), found["modules"]
    return f"{len(found['rows'])} rows"


def the_same_loop_without_leaks_raises_no_alarm():
    found = leaks("tight")
    assert (found["verdict"], found["steps"], found["rows"]) == ("no_growth", 30, []), found["rows"]


if __name__ == "__main__":
    run_cases(
        [
            ("leaks.planted", planted_leaks_are_found),
            ("leaks.none", the_same_loop_without_leaks_raises_no_alarm),
        ]
    )
