"""Ask about the tapes of a fleet, a Ray task each: which rank reserves most, and how far the ranks are apart.

    pip install '.[ray]'
    python examples/ray_fleet.py tapes/ [--config expandable_segments:True]

Ray starts on this machine; with RAY_ADDRESS set, the tasks go to that cluster, where vramtape has to be installed and
the tapes have to be under the same paths.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import ray

import vramtape


def main():
    options = parse()
    tapes = sorted(options.folder.glob("*.vtape"))
    if not tapes:
        sys.exit(f"error: no .vtape in {options.folder}")
    start()
    # The function is the package's own, without a wrapper. A task has one CPU, so its replay has one thread.
    replay = ray.remote(num_cpus=1)(vramtape.replay)
    asked = {replay.remote(str(tape), config=options.config, threads=1): tape.name for tape in tapes}
    reports = {}
    waiting = list(asked)
    while waiting:
        (done,), waiting = ray.wait(waiting)
        try:
            reports[asked[done]] = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            sys.exit(f"error: {asked[done]}: {error.cause}")
        print(f"{asked[done]}: done, {len(reports)} of {len(tapes)}", file=sys.stderr)
    answer = summary(dict(sorted(reports.items())))
    print(json.dumps(answer, indent=2) if options.json else text(answer))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of tapes, one a rank")
    parser.add_argument("--config", metavar="SETTINGS", help="as in PYTORCH_CUDA_ALLOC_CONF [default: as recorded]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def start():
    """Joins the cluster of RAY_ADDRESS, or starts one here, without a dashboard and without a word to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_ADDRESS" in os.environ:
        ray.init()
    else:
        ray.init(include_dashboard=False, object_store_memory=100 << 20)


def summary(reports):
    """The worst rank and the spread over all, by the rules of `vramtape compare tapes/` (docs/ranks.md)."""
    reserved = {rank: report["peak_reserved_bytes"] for rank, report in reports.items()}

    def badness(rank):
        report = reports[rank]
        calls = report["device_allocs"] + report["device_frees"]
        return report["num_ooms"] > 0, report["peak_reserved_bytes"], calls

    worst = max(reports, key=badness)
    spread = {
        "min_bytes": min(reserved.values()),
        "median_bytes": int(statistics.median(reserved.values())),
        "max_bytes": max(reserved.values()),
    }
    return {"worst": worst, "peak_reserved": spread, "ranks": reports}


def text(answer):
    def mib(size_bytes):
        return f"{size_bytes / 2**20:.0f} MiB"

    lines = [
        f"{rank}: {mib(report['peak_reserved_bytes'])} reserved, {report['num_ooms']} times out of memory"
        for rank, report in answer["ranks"].items()
    ]
    least, median, most = map(mib, answer["peak_reserved"].values())
    return "\n".join([*lines, f"worst: {answer['worst']}", f"reserved: {least} to {most}, median {median}"])


if __name__ == "__main__":
    main()
