"""The table of docs/pytorch.md: a section for each torch, a row for each function, a column for each route."""

import re

ROUTES = ("pluggable", "bridge", "observe")
EQUAL, ABSENT = "=", "-"


def section(version, rows):
    """The section's text; `rows` are (function, what each route does)."""
    lines = [
        f"## PyTorch {version}",
        "",
        f"| function | {' | '.join(ROUTES)} |",
        f"|---|{'---|' * len(ROUTES)}",
        *(f"| {code(name)} | {' | '.join(cells)} |" for name, cells in rows),
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


def columns(text):
    """The cells of a section by (function, route)."""
    cells = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            name, *answers = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            cells.update({(name, route): answer for route, answer in zip(ROUTES, answers)})
    return cells
