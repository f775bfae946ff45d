"""Every route answers as PyTorch's own allocator does, apart from known differences; `UPDATE_TABLE=1` writes those."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from harness import ROOT, clean_environment, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "routes"))

from entry_points import unknown
from known import KNOWN, KNOWN_UNDER
from normal import difference
from table import ABSENT, EQUAL, ROUTES, differences, replaced, section

DOCUMENT = os.path.join(ROOT, "docs", "pytorch.md")
SECONDS_MAX = 600


def answers_of(route):
    script = os.path.join(ROOT, "tests", "python", "routes", "run.py")
    child = subprocess.run(
        [sys.executable, script, route],
        env=clean_environment(),
        timeout=SECONDS_MAX,
        text=True,
        capture_output=True,
    )
    assert child.returncode == 0, f"run.py {route} ended with {child.returncode}:\n{child.stderr}"
    return json.loads(child.stdout.splitlines()[-1])


def compare(native, other):
    """The difference between two results of one script, or None."""
    if "error" in native and "error" in other:
        same = native["error"][0] == other["error"][0]
        return None if same else f"{other['error'][0]} where PyTorch raises {native['error'][0]}"
    if "error" in other:
        return f"{other['error'][0]}: {other['error'][1]}"
    if "error" in native:
        return f"no error where PyTorch raises {native['error'][0]}"
    return difference(native["value"], other["value"])


def cell(route, name, native, other):
    """The table's entry of a function, and the mistake in it."""
    known = {**KNOWN[route], **KNOWN_UNDER.get((version_of(), route), {})}
    found, words = compare(native, other), known.get(name)
    if found is None:
        return EQUAL, words and f"{route}: {name} is as PyTorch's now: take it out of known.py"
    if words is None:
        return found, f"{route}: {name} is not as PyTorch's: {found}"
    error = other.get("error")
    return f"`{error[0]}`: {words}" if error else words, None


def version_of():
    import importlib.metadata

    return re.match(r"\d+\.\d+", importlib.metadata.version("torch")).group()


with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
    NATIVE, *OTHERS = pool.map(answers_of, ("native", *ROUTES))
ANSWERS = dict(zip(ROUTES, OTHERS))
RESULTS = {route: answers.get("results") for route, answers in ANSWERS.items()}
WRONG = {route: [] for route in ROUTES}


def rows():
    """The table's rows; what is wrong is noted."""
    for name, native in NATIVE["results"].items():
        cells = []
        for route in ROUTES:
            if RESULTS[route] is None:
                cells.append(ABSENT)
                continue
            text, wrong = cell(route, name, native, RESULTS[route][name])
            cells.append(text.replace("|", "\\|"))
            if wrong:
                WRONG[route].append(wrong)
        yield name, cells


SECTION = section(version_of(), list(rows()))


def as_native(route):
    assert not WRONG[route], "\n".join(WRONG[route])
    if RESULTS[route] is None:
        return f"(not available: {ANSWERS[route]['unavailable']})"
    return f"({len(NATIVE['results'])} functions)"


def nothing_died():
    died = [name for name, answer in NATIVE["results"].items() if answer.get("error", [""])[0] == "died"]
    assert not died, f"these never answered, not even natively: {died}"


def classified():
    nobodys, lost = unknown(NATIVE["entry_points"], NATIVE["results"])
    assert not nobodys, f"say in routes/entry_points.py what these have to do with memory: {nobodys}"
    assert not lost, f"the rows that routes/entry_points.py names for these are not in the table: {lost}"


def committed():
    with open(DOCUMENT) as file:
        document = file.read()
    if os.environ.get("UPDATE_TABLE"):
        with open(DOCUMENT, "w") as file:
            file.write(replaced(document, version_of(), SECTION))
        return "(written)"
    parts = re.split(r"(?m)^(?=## PyTorch )", document)
    mine = [part for part in parts if part.startswith(f"## PyTorch {version_of()}\n")]
    (before, counted), (now, count) = differences("".join(mine)), differences(SECTION)
    # A route that is not available on this machine may be on another: its part of the table is not checked.
    present = [route for route in ROUTES if RESULTS[route] is not None]
    stale = [place for place in {*before, *now} if place[1] in present and before.get(place) != now.get(place)]
    assert not stale, f"docs/pytorch.md is out of date, UPDATE_TABLE=1 writes it: {sorted(stale)[:5]}"
    assert counted == count, f"docs/pytorch.md is out of date, UPDATE_TABLE=1 writes it: {counted}, now {count}"


run_cases(
    [
        *((f"routes.{route} answers as PyTorch", lambda route=route: as_native(route)) for route in ROUTES),
        ("routes.every script answers natively", nothing_died),
        ("routes.every entry point is classified", classified),
        ("routes.docs/pytorch.md is what was found", committed),
    ]
)
