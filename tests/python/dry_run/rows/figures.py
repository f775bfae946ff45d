"""The figures of a row: a program prints them, and `test_dry_run_rows.py` reads them."""

import sys


def figure(quantity, value):
    """Prints a figure, in bytes unless it says otherwise."""
    print(f"FIGURE {quantity} {value}", flush=True)


def arguments(*kinds):
    """The arguments of the row's program, each of its kind."""
    given = sys.argv[1:]
    assert len(given) == len(kinds), f"{sys.argv[0]}: {len(kinds)} arguments are needed, not {len(given)}"
    return [kind(text) for kind, text in zip(kinds, given)]
