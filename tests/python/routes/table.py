"""The tables of docs/pytorch.md: a section for each torch, a row for each difference between a route and PyTorch."""

import re

ROUTES = ("pluggable", "bridge", "observe")
EQUAL, ABSENT = "=", "-"


def section(version, rows):
    """The section's text; `rows` are (function, the answer of each route). Equal answers are counted only."""
    functions = {}
    for name, cells in rows:
        for route, cell in zip(ROUTES, cells):
            if cell not in (EQUAL, ABSENT):
                functions.setdefault((route, cell), []).append(code(name))
    groups = sorted(functions.items(), key=lambda group: ROUTES.index(group[0][0]))
    lines = [
        f"## PyTorch {version}",
        "",
        f"{len(rows)} calls compared under each route.",
        "",
        "| route | difference | calls |",
        "|---|---|---|",
        *(f"| {route} | {cell} | {', '.join(names)} |" for (route, cell), names in groups),
        "",
    ]
    return "\n".join(lines)


def code(name):
    return f"`{name}`".replace("|", "\\|")


def replaced(document, version, text):
    """The document with this section in the place of the one before, sections in order of version."""
    head, *sections = re.split(r"(?m)^(?=## PyTorch )", document)
    kept = {title(one): one.rstrip() + "\n" for one in sections}
    kept[f"## PyTorch {version}"] = text
    order = sorted(kept, key=lambda one: [int(part) for part in one.rpartition(" ")[2].split(".")])
    return "\n".join([head.rstrip() + "\n", *(kept[one] for one in order)])


def title(text):
    return text.splitlines()[0]


def differences(text):
    """The differences of a section by (function, route), and how many calls were compared."""
    cells = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| route |"):
            route, difference, names = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            cells.update({(name, route): difference for name in re.findall(r"`([^`]+)`", names)})
    return cells, re.findall(r"(?m)^\d+ calls", text)
