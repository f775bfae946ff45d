"""Published peaks of real GPUs, and how far each estimator is from them.

    python benches/dry_run/scoreboard.py [--row NAME ...] [--contestant NAME ...] [--json FILE] [--page FILE]

`cargo xtask bench --dry-run` runs it. Each contestant runs the program of each row of `tests/python/dry_run/rows.tsv`,
one after the other. With VRAMTAPE_FAKEGPU=FOLDER, a checkout of FakeGPU executes the programs on the CPU; without, its
published errors are taken. Exits with 1 where a dry run could not run or is further from a published figure than the
row allows.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys

import contestants
import page
import share
from contestants import Answer, Row


def main() -> None:
    options = arguments()
    wanted = [row for row in contestants.table() if not options.row or row.name in options.row]
    board: dict[str, dict[str, Answer]] = {}
    for number, row in enumerate(wanted, 1):
        board[row.name] = {}
        for name in options.contestant or contestants.ALL:
            print(f"{number} of {len(wanted)}: {row.name}, {name}", file=sys.stderr, flush=True)
            board[row.name][name] = contestants.ALL[name](row)
    steps = {} if options.row else share.shares()
    made = {"about": about(), "rows": board, "steps": steps}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(made, file, indent=1, default=dataclasses.asdict)
    text = page.page(wanted, board, steps, made["about"])
    if options.page:
        with open(options.page, "w") as file:
            file.write(text)
    print(text)
    sys.exit(1 if failed(wanted, board) else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in contestants.table()]
    parser.add_argument("--row", action="append", choices=names, metavar="NAME", help="only this row; may be repeated")
    parser.add_argument("--contestant", action="append", choices=contestants.ALL, help="only this one")
    parser.add_argument("--json", metavar="FILE", help="write all answers for a program")
    parser.add_argument("--page", metavar="FILE", help="write the page as Markdown")
    return parser.parse_args()


def about() -> dict[str, str]:
    """The day, the machine and the versions."""
    import accelerate
    import torch
    import transformers

    with open("/proc/cpuinfo") as file:
        model = next(line.partition(": ")[2].strip() for line in file if line.startswith("model name"))
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "versions": f"PyTorch {torch.__version__}, transformers {transformers.__version__}, "
        f"accelerate {accelerate.__version__}, Python {platform.python_version()}",
    }


def failed(wanted: list[Row], board: dict[str, dict[str, Answer]]) -> bool:
    """Whether a dry run is further from a figure than its row allows."""
    is_failed = False
    for row in wanted:
        answer = board[row.name].get("dry-run", Answer(allocated=[0.0]))
        for kind, errors, allowed in (
            ("allocated", answer.allocated, max(page.ALLOCATED_WITHIN, row.within)),
            ("reserved", answer.reserved, page.RESERVED_WITHIN),
        ):
            if answer.reason or any(abs(error) > allowed for error in errors):
                print(f"FAIL {row.name}: {kind}: {answer.reason or errors}", file=sys.stderr)
                is_failed = True
    return is_failed


if __name__ == "__main__":
    main()
