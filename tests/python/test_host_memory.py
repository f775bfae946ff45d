"""Pinned host memory: on tape as PyTorch counts it, in `info`, `top` and `explain`; and programs that run out of it."""

import json
import os
import subprocess
import sys
import tempfile

import torch  # For its version only; every job is a child.

from harness import COMMAND, PACKAGE, ROOT, clean_environment, run_cases

JOB = os.path.join(ROOT, "tests", "python", "host", "job.py")
HISTORY = os.path.join(ROOT, "tests", "python", "host", "history.py")
MIB = 1 << 20
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
COUNTS_USE = VERSION >= (2, 15)
ROUTES = ("pluggable", "observe", "bridge")


def start(folder, how, route="pluggable", **settings):
    rings = os.path.join(folder, "rings")
    os.makedirs(rings, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "vramtape", "run", "--route", route, "-o", "run.vtape", JOB, how],
        cwd=folder,
        env=clean_environment(**{**PACKAGE, "VRAMTAPE_RINGS": rings, **settings}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, how, *, code=0, **settings):
    """What PyTorch counted before the end."""
    program = start(folder, how, **settings)
    out, error = program.communicate(timeout=300)
    assert program.returncode == code, f"{how} ended with {program.returncode}:\n{out}{error}"
    return json.loads(out.splitlines()[0])


def command(folder, *arguments):
    environment = {**os.environ, "VRAMTAPE_RINGS": os.path.join(folder, "rings")}
    done = subprocess.run(
        [COMMAND, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=300
    )
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def expected(stats):
    """PyTorch's numbers under the tape's names."""
    held = stats.get("reserved_bytes", stats["allocated_bytes"])
    blocks = stats.get("segment", stats.get("allocations"))
    reading = {
        "reserved_bytes": held["current"],
        "reserved_bytes_peak": held["peak"],
        "blocks": blocks["current"],
        "active_bytes": None,
        "active_bytes_peak": None,
        "active_blocks": None,
        "is_per_block": True,
        "is_by_calls": True,
    }
    if COUNTS_USE:
        reading["active_bytes"] = stats["active_bytes"]["current"]
        reading["active_bytes_peak"] = stats["active_bytes"]["peak"]
        reading["active_blocks"] = stats["active_requests"]["current"]
    return reading


def the_tape_has_what_pytorch_counts():
    for route in ROUTES:
        with tempfile.TemporaryDirectory() as folder:
            stats = run(folder, "ends", route=route)
            host = json.loads(command(folder, "info", "--json", "run.vtape"))["host_memory"]
            assert host["last"] == expected(stats), (route, host, stats)
            # Five calls, four steps, a moment, and the end; the first step comes before the first pinned block.
            assert host["readings"] == 10, (route, host)
            assert host["reserved_bytes_peak"] == host["last"]["reserved_bytes_peak"] == 8 * MIB, (route, host)
            line = next(line for line in command(folder, "info", "run.vtape").splitlines() if "pinned host" in line)
            assert "8.00 MiB in 5 blocks" in line and "(per block: PyTorch's calls" in line, line
            assert (" in use" in line) == COUNTS_USE, line
            explained = json.loads(command(folder, "explain", "--json", "--at", "last", "run.vtape"))
            assert explained["host_memory_then"] == host["last"] and explained["host_oom"] is None, explained
            text = command(folder, "explain", "--at", "last", "run.vtape")
            assert "\npinned host memory: 8.00 MiB in 5 blocks" in text, text
            first = json.loads(command(folder, "explain", "--json", "--at", "0", "run.vtape"))
            assert first["host_memory_then"] is None, first


def the_code_that_holds_it_is_named():
    for route in ROUTES:
        with tempfile.TemporaryDirectory() as folder:
            run(folder, "ends", route=route, VRAMTAPE_CONF="stacks:alloc")
            explained = json.loads(command(folder, "explain", "--json", "--at", "last", "run.vtape"))
            # The batches share a block of 4 MiB, and each step keeps one of 1 MiB.
            (holder,) = explained["host_holders"]
            assert (holder["size_bytes"], holder["blocks"]) == (8 * MIB, 5), (route, explained["host_holders"])
            assert "job.py:" in holder["label"] and "pinned" in holder["label"], (route, holder)
            text = command(folder, "explain", "--at", "last", "run.vtape")
            assert f"8.00 MiB  {holder['label']} (5 blocks)" in text, text
            first = json.loads(command(folder, "explain", "--json", "--at", "0", "run.vtape"))
            assert first["host_holders"] == [], first


def memory_that_the_program_registers_counts():
    """PyTorch's statistics do not have it: a call of the CUDA runtime through torch, and one before the first step."""
    with tempfile.TemporaryDirectory() as folder:
        stats = run(folder, "registered")
        host = json.loads(command(folder, "info", "--json", "run.vtape"))["host_memory"]["last"]
        assert host["reserved_bytes"] == expected(stats)["reserved_bytes"] + 32 * MIB, (host, stats)
        assert host["blocks"] == expected(stats)["blocks"] + 1, (host, stats)


def what_is_released_leaves_the_peak():
    if VERSION < (2, 8):
        return "PyTorch 2.7 cannot release pinned memory"
    with tempfile.TemporaryDirectory() as folder:
        stats = run(folder, "released")
        host = json.loads(command(folder, "info", "--json", "run.vtape"))["host_memory"]
        assert host["last"] == expected(stats), (host, stats)
        assert (host["last"]["reserved_bytes"], host["reserved_bytes_peak"]) == (4 * MIB, 8 * MIB), host


def top_shows_it():
    with tempfile.TemporaryDirectory() as folder:
        program = start(folder, "waits")
        stats = json.loads(program.stdout.readline())
        frame = json.loads(command(folder, "top", "--json", "--interval", "0.2"))
        text = command(folder, "top", "--once", "--interval", "0.2")
        program.communicate("", timeout=300)
        assert frame["devices"][0]["host_memory"] == expected(stats), (frame, stats)
        assert "pinned host memory 8.00 MiB" in text and "; per block: " in text, text


def a_program_that_pins_nothing_has_none():
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "unpinned")
        assert json.loads(command(folder, "info", "--json", "run.vtape"))["host_memory"] is None
        assert "pinned host" not in command(folder, "info", "run.vtape")


def dies(how, words, **settings):
    """The explanation of a program that ran out of host memory, in text and in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        stats = run(folder, how, code=1, VRAMTAPE_SIM_PINNED="16MiB", **settings)
        found = json.loads(command(folder, "explain", "--json", "run.vtape"))
        oom = found["host_oom"]
        assert oom["verdict"] == "host" and words in oom["why"], oom
        assert found["moment"]["kind"] == "last" and found["oom"] is None, found["moment"]
        steps = {step["name"]: step["bytes"] for step in oom["arithmetic"]}
        assert steps["requested"] == found["host_memory"]["refused_bytes"] == 16 * MIB, (steps, found["host_memory"])
        reading = expected(stats)
        assert steps["pinned by PyTorch"] == reading["reserved_bytes"], (steps, stats)
        assert steps["pinned at most"] == reading["reserved_bytes_peak"], (steps, stats)
        if COUNTS_USE:
            free = reading["reserved_bytes"] - reading["active_bytes"]
            assert (steps["in use"], steps["free, kept for reuse"]) == (reading["active_bytes"], free), (steps, stats)
        text = command(folder, "explain", "run.vtape")
        assert text.startswith("host: the driver refused to pin more host memory"), text
        report = command(folder, "report", "run.vtape")
        assert "**Cause: host.** The driver refused to pin more host memory" in report, report
        assert "to try first:\n- " in text and "DataLoader(pin_memory=False)" in text, text


def a_snapshot_with_the_history_has_each_block():
    """PyTorch 2.15's own history: exact, and not at marks only."""
    if not COUNTS_USE:
        return "PyTorch before 2.14 has no history of pinned memory"
    with tempfile.TemporaryDirectory() as folder:
        environment = clean_environment(**PACKAGE)
        script = [sys.executable, HISTORY, "host.pickle"]
        done = subprocess.run(script, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        stats = json.loads(done.stdout)
        host = json.loads(command(folder, "info", "--json", "host.pickle"))["host_memory"]
        # PyTorch adds the peaks of each size, which came at different times; the history has 4 + 1 + 1 + 1 MiB at once.
        exact = {"active_bytes_peak": 7 * MIB, "is_by_calls": False}
        assert host["last"] == {**expected(stats), **exact}, (host, stats)
        assert stats["active_bytes"]["peak"] == 9 * MIB, stats
        assert host["source"] == "per block: PyTorch's history", host
        command(folder, "import", "host.pickle", "-o", "host.vtape")
        assert json.loads(command(folder, "info", "--json", "host.vtape"))["host_memory"] == host


def pinned_memory_that_is_out_is_explained():
    for route in ROUTES:
        dies("empty", "job.py", route=route)
    dies("pin_memory", ".pin_memory()")
    dies("indirect", "torch.empty(9 * MIB, **OPTIONS)")
    dies("loader", "pin_memory.py:")
    dies("thread", "Error in pin memory thread")


def the_advice_helps():
    """Each change that the explanation names lets the program end well."""
    changes = {"rounding": {"PYTORCH_CUDA_ALLOC_CONF": "pinned_max_round_threshold_mb:4"}} if COUNTS_USE else {}
    for name, change in changes.items():
        with tempfile.TemporaryDirectory() as folder:
            # 9 MiB beside 8 MiB: not rounded to 16 MiB they fit.
            run(folder, "empty", code=1, VRAMTAPE_SIM_PINNED="18MiB")
            stats = run(folder, "empty", VRAMTAPE_SIM_PINNED="18MiB", **change)
            assert stats["allocated_bytes"]["current"] <= 8 * MIB, (name, stats)
    return f"{len(changes)} changes"


def memory_of_a_device_that_is_out_is_no_host_memory():
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "device", code=1)
        found = json.loads(command(folder, "explain", "--json", "run.vtape"))
        assert found["host_oom"] is None and found["oom"]["verdict"] == "huge-request", found["oom"]


CASES = [
    the_tape_has_what_pytorch_counts,
    the_code_that_holds_it_is_named,
    memory_that_the_program_registers_counts,
    what_is_released_leaves_the_peak,
    top_shows_it,
    a_program_that_pins_nothing_has_none,
    pinned_memory_that_is_out_is_explained,
    a_snapshot_with_the_history_has_each_block,
    the_advice_helps,
    memory_of_a_device_that_is_out_is_no_host_memory,
]
run_cases([(f"host.{case.__name__}", case) for case in CASES])
