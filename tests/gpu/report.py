"""What the sessions say together: what failed, and a page for docs/results."""

import tables

# Of what failed, the rest is in the JSON file.
LENGTH_MAX = 80
# Parts whose values must be the same in every session.
DIGESTS = (("training", "digest"), ("collectives", "digest"), ("capacity", "digest_afterwards"))


def failures(results):
    """One sentence for each thing that is not as it has to be."""
    found = []
    sessions = results["sessions"]
    reference = sessions.get("native", {}).get("parts", {})
    for name, session in (sessions | results["programs"] | results["limits"] | results["batches"]).items():
        if "failed" in session:
            found.append(f"{name}: {session['failed']}")
        for part, result in session.get("parts", {}).items():
            if "failed" in result:
                found.append(f"{name}: {part}: {result['failed'].splitlines()[0].split('. ')[0][:LENGTH_MAX]}")
        for part, key in DIGESTS:
            expected = reference.get(part, {}).get(key)
            got = session.get("parts", {}).get(part, {}).get(key)
            if expected and got and got != expected:
                found.append(f"{name}: {part}: other values than under PyTorch's own allocator")
    return found


# What `stitch` relies on, besides its own sessions and programs.
RELIED_ON = ("native: aliases", "native: persistent")


def verdict(results):
    """Whether this GPU may use `stitch`: off by name where a check failed that PyTorch's own allocator passes."""
    failures = results["failures"]
    ours = [name for kind in ("sessions", "programs") for name in results[kind] if name.endswith((" stitch", " plan"))]
    its_own = [
        one
        for one in failures
        if one.startswith(tuple(f"{name}:" for name in ours)) and f"native: {one.split(': ', 1)[1]}" not in failures
    ]
    against = [one for one in failures if one.startswith(RELIED_ON)] + its_own
    if results["simulated"] or not ours:
        return []
    if against:
        return [f"**`stitch` is off for this GPU**, use `strategy:native`: {'; '.join(against)}.", ""]
    return ["`stitch` passed every check that ran on this GPU.", ""]


def markdown(results):
    """The page."""
    sessions = {name: session for name, session in results["sessions"].items() if "parts" in session}
    programs = {name: program for name, program in results["programs"].items() if "steps_ms" in program}
    first = next(iter((sessions | programs).values()), {})
    lines = [
        f"# On a GPU, {results['date']}" if not results["simulated"] else f"# A rehearsal, {results['date']}",
        "",
        (
            f"{first.get('device', 'no device')}; PyTorch {first.get('torch', '?')}, CUDA {first.get('cuda', '?')}; "
            f"{results['machine']}.\n`cargo xtask gpu` makes this page."
        ),
        "",
    ]
    if results["simulated"]:
        lines += ["On the simulated driver: nothing here is a measurement, and values are not compared.", ""]
    lines += verdict(results)
    if programs:
        lines += tables.of_programs(programs)
    lines += tables.of_limits(results["limits"]) + tables.of_batches(results["batches"])
    if sessions:
        lines += tables.training(sessions) + tables.pairs(sessions) + tables.parts(sessions)
        for of_driver in (tables.prices, tables.pages, tables.busy, tables.aliases, tables.persistent):
            lines += of_driver(first["parts"])
    lines += ["## Failures", ""] + [f"- {failure}" for failure in results["failures"] or ["none"]]
    both = results["sessions"] | results["programs"]
    skipped = [(name, found["skipped"]) for name, found in both.items() if "skipped" in found]
    lines += [f"- skipped: {name}: {reason}" for name, reason in skipped]
    return "\n".join(lines) + "\n"
