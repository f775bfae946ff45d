"""What the sessions say together: what failed, and a page for docs/results."""

GIB = 1 << 30
# Parts whose values must be the same in every session.
DIGESTS = (("training", "digest"), ("capacity", "digest_afterwards"))


def failures(results):
    """One sentence for each thing that is not as it has to be."""
    found = []
    sessions = results["sessions"]
    reference = sessions.get("native", {}).get("parts", {})
    for name, session in sessions.items():
        if "failed" in session:
            found.append(f"{name}: {session['failed']}")
        for part, result in session.get("parts", {}).items():
            if "failed" in result:
                found.append(f"{name}: {part}: {result['failed'].splitlines()[0]}")
        for part, key in DIGESTS:
            expected = reference.get(part, {}).get(key)
            got = session.get("parts", {}).get(part, {}).get(key)
            if expected and got and got != expected:
                found.append(f"{name}: {part}: other values than under PyTorch's own allocator")
    return found


def markdown(results):
    """The page."""
    sessions = {name: session for name, session in results["sessions"].items() if "parts" in session}
    first = next(iter(sessions.values()), {})
    lines = [
        f"# On a GPU, {results['date']}" if not results["simulated"] else f"# A rehearsal, {results['date']}",
        "",
        (
            f"{first.get('device', 'no device')}; PyTorch {first.get('torch', '?')}, CUDA {first.get('cuda', '?')}; "
            f"{results['machine']}. `cargo xtask gpu` makes this page."
        ),
        "",
    ]
    if results["simulated"]:
        lines += ["On the simulated driver: nothing here is a measurement, and values are not compared.", ""]
    lines += training(sessions) + pairs(sessions) + parts(sessions) + prices(first)
    lines += ["## Failures", ""] + [f"- {failure}" for failure in results["failures"] or ["none"]]
    skipped = [(name, session["skipped"]) for name, session in results["sessions"].items() if "skipped" in session]
    lines += [f"- skipped: {name}: {reason}" for name, reason in skipped]
    return "\n".join(lines) + "\n"


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


def prices(first):
    calls = first.get("parts", {}).get("price", {}).get("microseconds", {})
    return ["## Price of the driver's calls, microseconds", "", *table(["call", "median"], calls.items())]
