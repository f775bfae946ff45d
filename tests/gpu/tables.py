"""The tables of the page that `report.py` writes."""

GIB = 1 << 30


def table(heads, rows):
    return (
        ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        + [""]
    )


def training(sessions):
    rows = []
    for name, session in sessions.items():
        part = session["parts"].get("training", {})
        if "digest" in part:
            peaks = [f"{part[key] / GIB:.3f}" for key in ("peak_reserved_bytes", "peak_allocated_bytes")]
            speeds = [part["gpt_steps_per_second"], part["convolution_steps_per_second"]]
            rows.append([name, *speeds, *peaks, f"`{part['digest'][:12]}`"])
    heads = ["", "GPT steps/s", "convolutions steps/s", "peak reserved GiB", "peak allocated GiB", "digest"]
    return ["## Training", "", "The digest is of all losses and parameters.", "", *table(heads, rows)]


def pairs(sessions):
    rows = [
        [name, *session["parts"]["empty"]["pair_ns"].values()]
        for name, session in sessions.items()
        if "pair_ns" in session["parts"].get("empty", {})
    ]
    return ["## torch.empty and its free, in Python, nanoseconds", "", *table(["", "512 B", "4 MiB"], rows)]


def parts(sessions):
    names = list(dict.fromkeys(part for session in sessions.values() for part in session["parts"]))
    rows = [[part, *(state(session["parts"].get(part)) for session in sessions.values())] for part in names]
    return ["## Parts", "", *table(["", *sessions], rows)]


def state(result):
    """One word for what a part answered."""
    if result is None:
        return "-"
    return next((word for word in ("failed", "skipped") if word in result), "ok")


def prices(parts):
    calls = parts.get("price", {}).get("microseconds", {})
    return ["## Price of the driver's calls, microseconds", "", *table(["call", "median"], calls.items())]


def pages(parts):
    by_count = parts.get("pages", {}).get("microseconds_a_page", {})
    columns = {f"{count} pages": phases for count, phases in by_count.items()}
    return ["## Pages of 2 MiB, microseconds a page", "", *phases_table(columns)]


def busy(parts):
    found = parts.get("busy", {})
    title = "## 64 pages of 2 MiB while the GPU works, microseconds a page"
    waits = [f"- waits for the work: {call}, {us} us" for call, us in found.get("waits", {}).items()]
    return [title, "", *phases_table(found.get("microseconds_a_page", {})), *waits, ""]


def phases_table(columns):
    phases = list(dict.fromkeys(phase for phases in columns.values() for phase in phases))
    rows = [[phase, *(phases.get(phase, "-") for phases in columns.values())] for phase in phases]
    return table(["phase", *columns], rows)


def aliases(parts):
    checks = parts.get("aliases", {}).get("checks", {})
    title = "## One page at several addresses: elements that are not as written"
    return [title, "", *table(["writer and reader", "wrong"], checks.items())]


def persistent(parts):
    """Whether a kernel that stays sees its pages, whatever the host maps meanwhile."""
    found = parts.get("persistent", {})
    if "wrong_inside_one_kernel" not in found:
        return []
    rows = [*found["wrong_inside_one_kernel"].items()]
    rows.append((f"{found['pages_mapped_meanwhile']} pages mapped and unmapped meanwhile", found["wrong_while_mapped"]))
    title = "## One kernel that stays: elements that are not as written"
    intro = "The first four write through one address of a page and read through another, in one kernel."
    return [title, "", intro, "", *table(["reader", "wrong"], rows)]


def of_programs(programs):
    rows = []
    for name, found in programs.items():
        rounds = found.get("rounds_ms", [found["later_step_ms"]])
        times = [" ".join(str(step or "-") for step in rounds), found["seconds"]]
        peaks = [found[f"peak_{kind}_bytes"] for kind in ("reserved", "allocated")]
        rows.append([name, *times, *(f"{peak / GIB:.3f}" for peak in peaks), f"{peaks[1] / peaks[0]:.4f}"])
    heads = ["", "later step, ms", "whole, s", "peak reserved GiB", "peak allocated GiB", "allocated / reserved"]
    intro = (
        "The time of a step is the median of the second half, of each round. "
        "The whole includes the start of the kernels' modules."
    )
    return ["## Programs", "", intro, "", *table(heads, rows)]


def of_limits(found):
    """Which programs end well with 2 % more than their tensors take."""
    if not found:
        return []
    rows = [[name, f"{one['limit_bytes'] / GIB:.3f}", *outcome(one)] for name, one in with_steps(found)]
    intro = "Each may take 1.02 of the bytes that were allocated at the peak under PyTorch's own allocator."
    heads = ["", "limit GiB", "", "retries", "later step, ms"]
    return ["## With hardly more memory than the tensors take", "", intro, "", *table(heads, rows)]


def of_batches(found):
    """Whether the largest batches are those of the dry run."""
    if not found:
        return []
    rows = []
    for name, one in with_steps(found):
        peaks = [f"{one[f'peak_{kind}_bytes'] / GIB:.3f}" for kind in ("reserved", "allocated")]
        rows.append([name, *peaks, *outcome(one)])
    intro = (
        "On the whole device: the largest batch of the dry run, one more, and the largest of PyTorch's own allocator."
    )
    heads = ["program, policy, batch", "peak reserved GiB", "peak allocated GiB", "", "retries", "later step, ms"]
    return ["## The largest batch", "", intro, "", *table(heads, rows)]


def with_steps(found):
    return [(name, one) for name, one in found.items() if "steps_ms" in one]


def outcome(one):
    """How a program ended that may be out of memory."""
    ended = "out of memory" if one["out_of_memory"] else "completes"
    return [ended, one["num_alloc_retries"], one["later_step_ms"] or "-"]
