"""The table's rows: a script for each function, the same under every route."""

from . import accelerator, graphs, history, memory, pools, settings, snapshots, statistics, tensors

GROUPS = (statistics, accelerator, snapshots, history, memory, settings, pools, graphs, tensors)
CASES = [case for group in GROUPS for case in group.CASES]

assert len({case.name for case in CASES}) == len(CASES), "two cases have one name"


def has_all(torch, case):
    """Whether this torch has what the case calls."""
    return all(has(torch, name) for name in case.needs)


def has(torch, path):
    found = torch
    for name in path.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True
