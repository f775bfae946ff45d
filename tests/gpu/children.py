"""The processes of the GPU suite, by kind: sessions, programs, programs with a limit, and the largest batches."""

import json
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPANDABLE = "expandable_segments:True"
STITCH = "strategy:stitch"
PLAN = "plan"  # Stitch with the plan that `plans.py` made, where there is one.
# Name, route, PyTorch's settings or ours. The first is what the others are compared with.
SESSIONS = (
    ("native", "native", ""),
    ("bridge, stitch", "bridge", STITCH),
    ("bridge, plan", "bridge", PLAN),
    ("bridge", "bridge", ""),
    ("native, expandable", "native", EXPANDABLE),
    ("bridge, expandable", "bridge", EXPANDABLE),
    ("pluggable", "pluggable", ""),
    ("observe", "observe", ""),
    ("pluggable, expandable", "pluggable", EXPANDABLE),
    ("observe, expandable", "observe", EXPANDABLE),
)
# Programs of `recordings`, and how each is allocated.
PROGRAMS = ("image_sizes", "experts", "adapters", "evaluation", "rl_phases", "long_context", "speculative")
# Those whose history under PyTorch's own allocator is kept too.
SNAPSHOTS = ("image_sizes", "experts")
POLICIES = (
    ("native", "native", ""),
    ("expandable", "native", EXPANDABLE),
    ("ours", "bridge", ""),
    ("stitch", "bridge", STITCH),
    ("plan", "bridge", PLAN),
)
# Policies that are compared with little memory.
RIVALS = tuple(policy for policy in POLICIES if policy[0] in ("native", "expandable", "stitch"))
# A limit is this much of the bytes that PyTorch's own allocator had allocated at its peak.
LIMIT = 1.02
PAGE_BYTES = 2 << 20


@dataclass
class Child:
    """One process: its place in the results, its command, and its settings of the allocator."""

    kind: str
    name: str
    arguments: list
    settings: str
    variables: dict = field(default_factory=dict)


def sessions(options, _results):
    """One for each way to be allocated."""
    parts = [argument for part in options.part or () for argument in ("--part", part)]
    for name, route, settings in SESSIONS:
        if settings == PLAN:
            settings = planned("training")
        if settings is not None:
            yield Child("sessions", name, ["session.py", route, *parts], settings)


def programs(options, _results):
    """Every program under every policy. The tapes of ours go to the folder."""
    for program in PROGRAMS:
        for policy, route, settings in POLICIES:
            if settings == PLAN:
                settings = planned(program)
            if settings is None:
                continue
            if route == "bridge":
                tape = (options.out / f"{program}-{policy}.vtape").absolute()
                settings = ",".join(filter(None, (settings, f"record:file,stacks:none,tape:{tape}")))
            yield Child("programs", f"{program}, {policy}", ["program.py", route, program], settings)
    for program in SNAPSHOTS:
        snapshot = str((options.out / f"{program}.pickle").absolute())
        arguments = ["program.py", "native", program, "--snapshot", snapshot]
        yield Child("programs", f"{program}, native with history", arguments, "")


def limits(_options, results):
    """The programs with hardly more memory than their tensors take, where it is known how much that is."""
    for program in PROGRAMS:
        measured = results["programs"].get(f"{program}, native", {})
        if "peak_allocated_bytes" in measured:
            pages = int(LIMIT * measured["peak_allocated_bytes"] / PAGE_BYTES) + 1
            for policy, route, settings in RIVALS:
                arguments = ["program.py", route, program, "--limit", str(pages * PAGE_BYTES)]
                yield Child("limits", f"{program}, {policy}", arguments, settings)


def batches(_options, _results):
    """The largest batch by the dry runs of `batches.py`, and one more, with the whole device."""
    file = HERE / "plans" / "batches.json"
    for program, largest in json.loads(file.read_text()).items() if file.is_file() else ():
        for policy, route, settings in RIVALS:
            # The batch of PyTorch's own allocator too: its steps are as long as the GPU takes.
            for count in sorted({largest["native"], largest[policy], largest[policy] + 1}):
                name = f"{program}, {policy}, {count}"
                yield Child("batches", name, ["program.py", route, program], settings, {"BATCH": str(count)})


def planned(name):
    """The settings for a plan; None without it."""
    plan = HERE / "plans" / f"{name}.vplan"
    return f"{STITCH},plan:{plan}" if plan.is_file() else None


KINDS = {"sessions": sessions, "programs": programs, "limits": limits, "batches": batches}
