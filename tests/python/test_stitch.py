"""`strategy:stitch` under an unmodified PyTorch: training, graphs, pools, out of memory, other processes, the tape."""

import json
import os
import subprocess
import sys
import tempfile

from harness import COMMAND, PACKAGE, clean_environment, run_cases, run_python

MIB = 1 << 20
ROUTES = ("bridge", "pluggable")


def settings(strategy, **more):
    conf = ",".join([f"strategy:{strategy}", *(f"{key}:{value}" for key, value in more.items())])
    return {**PACKAGE, "VRAMTAPE_CONF": conf}


def run(script, flags=(), **environment):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stitch", script)
    return run_python("-m", "vramtape", "run", "--sim", *flags, script, **environment)


def last_line(output):
    return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])


def trains():
    """The peak that PyTorch reports is close to the live bytes, below `native`'s, and the replay's; events are late."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for strategy in ("native", "stitch"):
            tape = os.path.join(folder, f"{strategy}.vtape")
            found[strategy] = last_line(run("train.py", **settings(strategy, tape=tape), VRAMTAPE_SIM_EVENT_LAG="3"))
        stitch = found["stitch"]
        reserved = stitch["reserved_bytes.all.peak"]
        assert reserved <= 1.04 * stitch["allocated_bytes.all.peak"] + 4 * MIB, found
        assert reserved < found["native"]["reserved_bytes.all.peak"], found
        assert stitch["expandable"] == [True], found
        replay = json.loads(subprocess.check_output([COMMAND, "replay", "--json", tape], text=True))
        assert (replay["strategy"], replay["peak_reserved_bytes"]) == ("stitch", reserved), replay
        verified = subprocess.run([COMMAND, "verify", tape], text=True, capture_output=True)
        assert verified.returncode == 0 and "the same as recorded" in verified.stdout, verified
    share = reserved / found["native"]["reserved_bytes.all.peak"]
    return f"{share:.3f} of native's reserved memory"


def follows_a_plan():
    """A run with the plan of an earlier one reserves less than without, and replays with that plan."""
    with tempfile.TemporaryDirectory() as folder:
        first, plan, second = (os.path.join(folder, name) for name in ("first.vtape", "0.vplan", "second.vtape"))
        learned = last_line(run("train.py", **settings("stitch", tape=first)))
        line = [COMMAND, "plan", "--json", first, "-o", plan]
        (planned,) = json.loads(subprocess.check_output(line, text=True))["runs"]
        named = os.path.join(folder, "{rank}.vplan")
        followed = last_line(run("train.py", **settings("stitch", tape=second, plan=named)))
        reserved = followed["reserved_bytes.all.peak"]
        assert followed["allocated_bytes.all.peak"] == learned["allocated_bytes.all.peak"], (learned, followed)
        assert reserved < learned["reserved_bytes.all.peak"], (learned, followed)
        assert reserved == planned["planned"]["peak_reserved_bytes"], (planned, followed)
        verified = subprocess.run([COMMAND, "verify", second], text=True, capture_output=True)
        assert verified.returncode == 0 and "the same as recorded" in verified.stdout, verified
        os.remove(plan)  # A tape has the path only: without the file it cannot be replayed.
        for verb in ("verify", "replay"):
            without = subprocess.run([COMMAND, verb, second], text=True, capture_output=True)
            assert f"the plan {plan}: No such file" in without.stderr, (verb, without)
    return f"{reserved / followed['allocated_bytes.all.peak']:.4f} of what is allocated"


def a_killed_run_is_replayed():
    """The ring of a killed run begins in the middle. Its replay starts with the recorded memory, under any strategy."""
    killed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stitch", "killed.py")
    environment = clean_environment(**settings("stitch", record="ring", ring_events=4096))
    found = last_line(subprocess.run([sys.executable, killed], env=environment, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        tape = os.path.join(folder, "killed.vtape")
        subprocess.run([COMMAND, "recover", str(found["pid"]), "-o", tape], check=True, capture_output=True)
        for verb in ("explain", "waste", "tune", "fit"):
            done = subprocess.run([COMMAND, verb, tape], text=True, capture_output=True)
            assert done.returncode == 0 and "starts mid-run" in done.stdout, (verb, done)
        report = json.loads(subprocess.check_output([COMMAND, "compare", "--json", tape], text=True))
        rows = {row["strategy"]: row["peak_reserved_bytes"] for row in reversed(report["rows"])}
    reserved = found["reserved_bytes"]
    assert abs(rows["stitch"] / reserved - 1) < 0.02, (rows, found)
    assert rows["native"] > 1.2 * reserved, (rows, found)
    return f"{rows['stitch'] / reserved:.4f} of the recorded memory"


def script(name, route, **environment):
    def case():
        run(name, **settings("stitch", route=route), **environment)

    return (f"stitch.{name} {route}", case)


def settings_are_checked():
    for conf, words in (
        ("strategy:stitch,address_budget:1", "write address_budget: and a number from 2 to 64"),
        ("strategy:stitch,stream_sharing:often", "never|idle|wait"),
        ("strategy:plan", "write strategy:stitch,plan:FILE"),
        ("strategy:stitch,plan:none.vplan", 'the plan "none.vplan" cannot be used: No such file'),
        (f"strategy:stitch,plan:{__file__}", "line 1: a plan starts with `vramtape plan 1`"),
    ):
        output = run_python(
            "-c",
            "import vramtape\ntry: vramtape.install()\nexcept Exception as e: print(e)",
            **PACKAGE,
            VRAMTAPE_CONF=conf,
        )
        assert words in output, (conf, output)


run_cases(
    [
        ("stitch.trains", trains),
        ("stitch.follows_a_plan", follows_a_plan),
        ("stitch.a_killed_run_is_replayed", a_killed_run_is_replayed),
        *(script("graphs.py", route, VRAMTAPE_SIM_MEMORY="1GiB") for route in ROUTES),
        script("sharing.py", "bridge"),
        ("stitch.settings_are_checked", settings_are_checked),
    ]
)
