"""The result of a dry run for people: a page of text, and Markdown for a pull request."""

from __future__ import annotations

from typing import Any

from .._sizes import show
from .._text import one_line
from . import calibrate, guessed, peaks

_ROWS = (
    ("peak_allocated_bytes", "peak allocated", "as PyTorch's max_memory_allocated"),
    ("peak_reserved_bytes", "peak reserved", "as max_memory_reserved"),
    ("context_bytes", "CUDA context", "outside PyTorch, and libraries' kernels"),
    ("outside_bytes", "outside the allocator", "buffers of libraries in this program"),
    ("device_total_bytes", "device total", "reserved, context and what else is outside"),
)
# Rows that are left out at 0.
_OPTIONAL = ("outside_bytes",)


def text(result: dict[str, Any]) -> str:
    """The result as lines."""
    lines = [_headline(result), *(f"  {one_line(why)}" for why in result["why"])]
    for device in result["devices"]:
        lines += ["", _about(device), *aligned(_table(device))]
        holders = [(show(row["allocated_bytes"]), one_line(row["code"])) for row in device["holders"]]
        if holders:
            lines += ["held at the peak by", *(f"  {size:>10}  {code}" for size, code in holders)]
    if result["calibration"]:
        lines += ["", f"compared with {one_line(result['calibration']['run'])}"]
        for table in calibrate.table(result["calibration"]):
            lines += ["", *aligned(table)]
    lines += ["", *_more(result)]
    return "\n".join(lines).rstrip()


def markdown(result: dict[str, Any]) -> str:
    """The result for a pull request."""
    lines = [f"### {_headline(result)}", "", *(f"- {_escaped(why)}" for why in result["why"])]
    for device in result["devices"]:
        rows = ["| {} | {} | {} | {} | {} |".format(*row) for row in _table(device)]
        lines += ["", _about(device), "", rows[0], "|---|---:|---:|---:|---|", *rows[1:]]
        holders = [f"- {show(row['allocated_bytes'])} {_escaped(row['code'])}" for row in device["holders"]]
        if holders:
            lines += ["", "Held at the peak by", "", *holders]
    if result["calibration"]:
        lines += ["", f"Compared with {_escaped(result['calibration']['run'])}"]
        for table in calibrate.table(result["calibration"]):
            rows = ["| " + " | ".join(map(_escaped, row)) + " |" for row in table]
            lines += ["", rows[0], "|---|---:|---:|---:|---:|", *rows[1:]]
    lines += ["", *(f"{line}  " for line in _more(result))]
    return "\n".join(lines).rstrip() + "\n"


def _headline(result: dict[str, Any]) -> str:
    gpu = result["gpu"]
    where = f"{gpu['count']} x {gpu['name']}" if gpu["count"] > 1 else gpu["name"]
    fullest = peaks.fullest(result)
    if fullest is None:
        return f"{result['verdict']} on {where}"
    use = f"{show(fullest['device_total_bytes'])} of {show(fullest['memory_bytes'])}"
    return f"{result['verdict']} on {where}: {use}"


def _about(device: dict[str, Any]) -> str:
    processes = "" if device["processes"] == 1 else f", the sum of {device['processes']} processes' peaks"
    return f"device {device['device']}{processes}"


def _table(device: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("memory", "expected", "at least", "at most", "what it is")]
    for name, label, about in _ROWS:
        if name in _OPTIONAL and not device[name]:
            continue
        bounds = device["bounds"].get(name)
        limits = (show(bounds["lower"]), show(bounds["upper"])) if bounds else ("", "")
        if name == "peak_reserved_bytes" and device["allocator"] != "native":
            about = f"by a model of {device['allocator']}"
        rows.append((label, show(device[name]), *limits, about))
    return rows


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """The lines of a table whose first row is its head; the cells between the first and the last are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    first, *sizes, last = range(len(widths))

    def line(row: tuple[str, ...]) -> str:
        middle = [f"{row[at]:>{widths[at]}}" for at in sizes]
        return "  ".join([f"{row[first]:<{widths[first]}}", *middle, row[last]]).rstrip()

    head, *body = map(line, rows)
    return [head, "-" * max(map(len, [head, *body])), *body]


def _more(result: dict[str, Any]) -> list[str]:
    program = result["program"]
    steps = f", {program['steps']} optimizer steps" if program["steps"] else ""
    lines = [f"PyTorch {result['torch_version']}, {program['seconds']:.1f} s{steps}"]
    lines += guessed.lines(result["guesses"])
    for one in result["weights"]:
        lines.append(f"weights without data: {one_line(one['name'])}, {show(one['size_bytes'])} by its {one['source']}")
    smallest = result["smallest_gpu"]
    if smallest:
        lines.append(
            f"smallest GPU that is enough: {smallest['name']}, with {show(smallest['spare_bytes'])} to spare; "
            f"`--gpu {smallest['name']}` runs there, where libraries may take other workspaces"
        )
    if result["remedies"]:
        lines += ["what would have helped, each replayed:", *(f"- {one_line(it)}" for it in result["remedies"])]
    if result["tapes"]:
        lines.append(f"tapes: {', '.join(map(one_line, result['tapes']))}")
    return lines


def _escaped(text: str) -> str:
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")
