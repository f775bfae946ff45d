"""Programs of kinds that the other recordings lack, recorded and replayed: `stitch` reserves less than `native` and
`expandable` on each, and a plan little more than what is live. The programs are in `recordings`.

VRAMTAPE_KEEP=FOLDER keeps the tapes.
"""

import json
import os
import subprocess
import tempfile

from harness import COMMAND, PACKAGE, run_cases, run_python

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = (
    "rl_phases",
    "graph_ladder",
    "speculative",
    "long_context",
    "experts",
    "image_sizes",
    "adapters",
    "evaluation",
)
LINES = {
    **{name: [f"{name}.py"] for name in PROGRAMS},
    # The seed, steps of drawn shapes, and executions of one step.
    "prefetch": ["further.py", "prefetch", "8", "6", "97"],
}
LEAST_EFFICIENCY = 0.97
LEAST_PLANNED = 0.99
# Their private pools are as in native, and are left out of the efficiency.
GRAPHS = ("graph_ladder",)
# Mappings of `stitch` on programs whose steps differ. Without holes that take fewer driver calls there are more.
# The last 97 steps of `prefetch` are alike. A loader on another stream takes 12 pages of a place back in each of them:
# if the place got others each time, 3129 would be mapped in all.
MOST_MAPS = {"experts": 4500, "rl_phases": 6000, "prefetch": 2700}
STRATEGIES = ("native", "expandable", "stitch")
FOLDER = tempfile.TemporaryDirectory()


def replay(tape, strategy):
    line = [COMMAND, "replay", "--json", "--capacity=unlimited", f"--strategy={strategy}", tape]
    return json.loads(subprocess.check_output(line, text=True, stderr=subprocess.DEVNULL))


def check(name, program, *arguments):
    def run():
        tape = os.path.join(os.environ.get("VRAMTAPE_KEEP", FOLDER.name), f"{name}.vtape")
        flags = ("--sim", "-q", "-f", "--conf", "stacks:none", "-o", tape)
        path = os.path.join(HERE, "recordings", program)
        run_python("-m", "vramtape", "run", *flags, path, *arguments, **PACKAGE)
        reports = {strategy: replay(tape, strategy) for strategy in STRATEGIES}
        stitch = reports["stitch"]
        assert bool(stitch["pools"]) == (name in GRAPHS), stitch
        if name in GRAPHS:
            native, private = (reports[one]["pools"]["private"] for one in ("native", "stitch"))
            assert private["peak_reserved_bytes"] <= native["peak_reserved_bytes"], reports
            for report in reports.values():
                report["efficiency"] = report["pools"]["default"]["efficiency"]
        plan = os.path.join(FOLDER.name, f"{name}.vplan")
        line = [COMMAND, "plan", "--json", "--capacity=unlimited", "-o", plan, tape]
        planned = json.loads(subprocess.check_output(line, text=True, stderr=subprocess.DEVNULL))["runs"][0]["planned"]
        reports["planned"] = planned
        assert stitch["peak_live_bytes"] > 5 << 28, stitch
        assert stitch["efficiency"] >= LEAST_EFFICIENCY, stitch
        assert all(stitch["efficiency"] > reports[other]["efficiency"] for other in STRATEGIES[:2]), reports
        assert stitch["driver_maps"] <= MOST_MAPS.get(name, stitch["driver_maps"]), stitch
        assert planned["efficiency"] >= LEAST_PLANNED, (planned, stitch)
        figures = ", ".join(f"{name} {report['efficiency']:.4f}" for name, report in reports.items())
        times = ", ".join(f"{name} {report['driver_time_ns'] // 1_000_000}" for name, report in reports.items())
        live = f"{stitch['peak_live_bytes'] / 2**30:.2f} GiB live"
        return f"{live}, {figures}; ms of driver calls: {times}; stitch maps {stitch['driver_maps']} pages"

    return run


run_cases([(f"recordings.{name}", check(name, *line)) for name, line in LINES.items()])
