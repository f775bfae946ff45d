"""One program of `recordings` in one process, under one route and strategy: its steps' times and its peaks.

    program.py ROUTE PROGRAM [--simulated] [--limit BYTES] [--snapshot FILE]      prints one line of JSON

A step ends with an optimizer's step; programs without one have the time of the whole. The variables of the program,
such as BATCH, come from the environment.
"""

import argparse
import json
import os
import runpy
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = next(
    folder for folder in (f"{HERE}/recordings", f"{HERE}/../python/recordings") if os.path.isdir(folder)
)  # Beside this file in the bundle.
sys.path[:0] = [HERE, os.environ.get("VRAMTAPE_PACKAGE", HERE)]


def main():
    from session import ROUTES, activate

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("route", choices=ROUTES)
    parser.add_argument("program")
    parser.add_argument("--simulated", action="store_true", help="on the simulated driver")
    parser.add_argument("--limit", type=int, help="bytes that the allocator may take, by the memory fraction")
    parser.add_argument("--snapshot", help="write PyTorch's own snapshot with its history to this file")
    options = parser.parse_args()
    torch = activate(options.route, options.simulated)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    torch.cuda.init()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    if options.limit:
        torch.cuda.set_per_process_memory_fraction(options.limit / total_bytes)
    if options.snapshot:
        torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    ends = []

    def step_ended(*_):
        torch.cuda.synchronize()
        ends.append(time.perf_counter())

    register_optimizer_step_post_hook(step_ended)
    torch.manual_seed(0)
    sys.path.insert(0, PROGRAMS)
    began = time.perf_counter()
    try:
        runpy.run_path(f"{PROGRAMS}/{options.program}.py", run_name="__main__")
        out_of_memory = None
    except torch.OutOfMemoryError as error:
        out_of_memory = str(error)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    if options.snapshot:
        torch.cuda.memory._dump_snapshot(options.snapshot)
    steps = [1000 * (end - start) for start, end in zip(ends, ends[1:])]
    later = steps[len(steps) // 2 :]
    stats = torch.cuda.memory_stats()
    found = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "free_bytes_at_start": free_bytes,
        "total_bytes": total_bytes,
        "limit_bytes": options.limit,
        "out_of_memory": out_of_memory,
        "seconds": round(seconds, 3),
        "steps_ms": [round(step, 2) for step in steps],
        "later_step_ms": round(statistics.median(later), 2) if later else None,
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_requested_bytes": stats["requested_bytes.all.peak"],
        "num_alloc_retries": stats["num_alloc_retries"],
        "num_device_alloc": stats.get("num_device_alloc"),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
