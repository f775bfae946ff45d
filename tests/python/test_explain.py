"""Programs that run out of memory for every cause: `vramtape explain` names it under PyTorch's own allocator and under
every route, and what it says would have helped is done: the program is then served.
"""

import json
import os
import re
import subprocess

from harness import COMMAND, PACKAGE, ROOT, run_cases, run_served

FOLDER = os.path.join(ROOT, "tests", "python", "explain")
ROUTES = ("native", "observe", "pluggable", "bridge")
# Routes under which one change of each kind is made; under the others all are.
BRIEF = ("observe", "pluggable")
MIB = 1 << 20
DEVICE_MIB, OTHERS_MIB = 1024, 500
# Programs that need a larger device.
DEVICES_MIB = {"libraries_outside": 4096}

# The verdict on each program.
VERDICTS = {
    "capacity_by_a_list": "capacity",
    "capacity_by_training": "capacity",
    "capacity_by_logits": "capacity",
    "capacity_by_rounding": "capacity",
    "huge_request": "huge-request",
    "huge_request_by_an_outer_product": "huge-request",
    "fragmentation_by_results": "fragmentation",
    "fragmentation_by_layers": "fragmentation",
    "fragmentation_of_small_blocks": "fragmentation",
    "partly_fragmentation_by_results": "partly-fragmentation",
    "partly_fragmentation_by_a_buffer": "partly-fragmentation",
    "other_process": "other-process",
    "other_process_at_the_start": "other-process",
    "beside_the_allocator": "capacity",
    "libraries_outside": "non-pytorch",
    "graphs_of_one_model": "graphs",
    "graphs_of_a_ladder": "graphs",
    "other_stream_of_copies": "other-stream",
    "other_stream_of_an_evaluation": "other-stream",
    "pending_free_in_a_capture": "pending-free",
    "settings_of_the_fraction": "settings",
    "settings_of_the_rounding": "settings",
    "cached_before_a_capture": "fragmentation",
}
# PyTorch's snapshots have no captures, no memory fraction, no memory of others, and sizes after the rounding; its
# tracker has sizes after the rounding, and the memory of others undivided.
OTHER_VERDICTS = {
    "native": {
        "other_process": "capacity",
        "other_process_at_the_start": "huge-request",
        "libraries_outside": "capacity",
        "pending_free_in_a_capture": "graphs",
        "settings_of_the_fraction": "unknown",
        "settings_of_the_rounding": "capacity",
        "cached_before_a_capture": "unknown",
    },
    "observe": {
        "settings_of_the_rounding": "capacity",
        "beside_the_allocator": "other-process",
        "libraries_outside": "other-process",
    },
}
# A change that has to be among those that help, where the route knows the cause.
HELPS = {
    "fragmentation_by_results": "settings",
    "graphs_of_a_ladder": "shared_pool",
    "settings_of_the_fraction": "memory_fraction",
    "cached_before_a_capture": "empty_cache",
    "other_process": "device_memory",
    "libraries_outside": "device_memory",
    "capacity_by_a_list": "smaller_batch",
    "capacity_by_logits": "free_before",
}
SETTINGS = {"settings_of_the_rounding": "roundup_power2_divisions:2"}

with open(os.path.join(FOLDER, "programs.py")) as file:
    # Lines whose tensors a program can drop before its last request.
    HELD_LINES = {number for number, line in enumerate(file, 1) if "run.hold(" in line}


def is_served(job):
    """Whether the last request of a job is served."""
    lines = run_served("explain/run.py", json.dumps(job), **PACKAGE, **job["sim"]).splitlines()
    assert "served" in lines or "out of memory" in lines, lines
    return "served" in lines


def job_of(program, route):
    kind = "pickle" if route == "native" else "vtape"
    sim = {"VRAMTAPE_SIM_MEMORY": f"{DEVICES_MIB.get(program, DEVICE_MIB)}MiB"}
    if program.startswith("other_process"):
        sim["VRAMTAPE_SIM_NEIGHBOUR"] = f"4242:{OTHERS_MIB}MiB"
    return {
        "program": program,
        "route": route,
        "output": os.path.abspath(f"{program}-{route}.{kind}"),
        "settings": SETTINGS.get(program, ""),
        "sim": sim,
        "conf": "stacks:alloc,tape_replace:True",
        "changes": {},
    }


def changed(job, remedy):
    """The job with a remedy, if a person can carry it out on this machine; models of other allocators are not."""
    kind, text, value = remedy["kind"], remedy["text"], remedy["value"]
    job = {**job, "output": os.path.abspath(f"changed-{os.path.basename(job['output'])}")}
    if kind == "settings":
        return {**job, "settings": value}
    if kind == "search_after_flush":
        return {**job, "route": "bridge", "conf": f"{job['conf']},{value}"}
    if kind == "empty_cache":
        return {**job, "changes": {"emptied": "every" if "every step" in text else "last"}}
    if kind == "device_memory":
        mib = -(-int(value) // MIB)
        if "less held by other processes" in text and "VRAMTAPE_SIM_NEIGHBOUR" in job["sim"]:
            return {**job, "sim": {**job["sim"], "VRAMTAPE_SIM_NEIGHBOUR": f"4242:{OTHERS_MIB - mib}MiB"}}
        if "less held by this process" in text:
            return {**job, "changes": {"outside_less_mib": mib}}
        device_mib = DEVICES_MIB.get(job["program"], DEVICE_MIB) + mib
        return {**job, "sim": {**job["sim"], "VRAMTAPE_SIM_MEMORY": f"{device_mib}MiB"}}
    if kind == "memory_fraction":
        return {**job, "changes": {"fraction": float(value)}}
    if kind == "shared_pool":
        return {**job, "changes": {"shares_pool": True}}
    if kind == "free_before":
        line = re.search(r" of programs\.py:(\d+) ", text)
        line = int(line.group(1)) if line else None
        return {**job, "changes": {"freed": line}} if line in HELD_LINES else None
    if kind == "smaller_batch":
        return {**job, "changes": {"factor": float(value.removeprefix("scale:"))}}
    assert kind == "strategy", remedy
    return None


def explained(program, route):
    job = job_of(program, route)
    assert not is_served(job), "the program is served as it is"
    run = subprocess.run([COMMAND, "explain", job["output"], "--json"], text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    oom = json.loads(run.stdout)["oom"]
    assert oom, "no out of memory is explained"
    expected = OTHER_VERDICTS.get(route, {}).get(program, VERDICTS[program])
    assert oom["verdict"] == expected, (oom["verdict"], oom["why"])
    kinds = [remedy["kind"] for remedy in oom["remedies"]]
    # Under `observe` a mark stands before the free that it follows, so that emptying there returns too little.
    is_late = route == "observe" and HELPS.get(program) == "empty_cache"
    assert oom["verdict"] == "unknown" or is_late or HELPS.get(program, kinds[0]) in kinds, kinds
    remedies = oom["remedies"]
    if route in BRIEF:
        remedies = list({remedy["kind"]: remedy for remedy in reversed(remedies)}.values())
    jobs = [(changed(job, remedy), remedy["text"]) for remedy in remedies]
    done = [(job, text) for job, text in jobs if job]
    failed = [text for job, text in done if not is_served(job)]
    assert not failed, f"does not help: {failed}"
    return f"{oom['verdict']}, {len(done)} of {len(jobs)} changes made"


if __name__ == "__main__":
    run_cases(
        [
            (f"explain.{route}.{program}", lambda program=program, route=route: explained(program, route))
            for route in ROUTES
            for program in VERDICTS
        ]
    )
