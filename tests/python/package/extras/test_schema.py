"""The schemas of `docs/schema` are exact: they accept the `--json` of every verb, and nothing in them is never printed.

Unknown fields are refused by `additionalProperties: false`, absent ones by `required`. A field of a schema that no run
here prints fails the test as well, unless UNSEEN says why.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from jsonschema import Draft202012Validator

sys.path[:0] = [str(Path(__file__).resolve().parents[number]) for number in (1, 2)]
from check import COMMAND, ONE_SHOT, OUT_OF_MEMORY, ROOT, TAPES, run_cases

from schemas import DOCUMENTS, OF_TORCH, Seen, at, best, properties

DATA = ROOT / "tests" / "data"
TRACES = [
    DATA / "traces" / f"{name}.pickle.zst"
    for name in ("resnet50_batchsweep-oom", "gpt2_train-default", "cudagraph_pools-default")
]
POOLS, TWO_DEVICES = (DATA / "snapshots" / name for name in ("2.15-pools.pickle", "2.7-two-devices.pickle"))
LOG = DATA / "logs" / "rmm.csv"
RUNS = [*sorted(TAPES.glob("*.vtape")), *TRACES, POOLS, LOG]
# Fields that no run here has, as `FILE#POINTER`, and why.
LIMITED = "a tape of more than 64 MiB, the least that `tape_max` takes"
REFUSED = "a replay of more than 32 million driver calls"
UNSEEN = {
    "compare.json#/$defs/compare_row/properties/refused": REFUSED,
    "compare.json#/$defs/refused_rank/properties/error": REFUSED,
    "compare.json#/$defs/refused_rank/properties/rank": REFUSED,
    "compare.json#/$defs/strategy_row/anyOf/1/properties/config": REFUSED,
    "compare.json#/$defs/strategy_row/anyOf/1/properties/error": REFUSED,
    "compare.json#/$defs/strategy_row/anyOf/1/properties/strategy": REFUSED,
    "info.json#/$defs/meta/properties/dropped_bytes": LIMITED,
    "info.json#/$defs/meta/properties/dropped_records": LIMITED,
    "info.json#/$defs/meta/properties/part": LIMITED,
}
# Buffers of which less memory than the last failing size is enough: id, first and last time, MiB.
LESS_IS_MORE = [("a", 0, 2, 600), ("stays", 1, 20, 30), ("b", 3, 6, 640), ("little", 4, 20, 12), ("c", 7, 20, 1000)]


def printed(*arguments, stdin=None, **settings):
    """The JSON that the command prints; 1 is the code of a check that failed."""
    line = [COMMAND, *map(str, arguments), "--json"]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, env={**os.environ, **settings})
    assert done.returncode in (0, 1) and done.stdout, f"{line} ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def program(folder, name, *arguments, strategy="native", **streams):
    """Starts the program that records a tape of this name; its rings are in the folder."""
    conf = f"strategy:{strategy},record:file,tape:{folder}/{name}.vtape,stacks:alloc"
    environment = {**os.environ, "VRAMTAPE_RINGS": str(folder / "rings"), "VRAMTAPE_CONF": conf}
    line = [sys.executable, str(Path(__file__).with_name("recorded.py")), *arguments]
    return subprocess.Popen(line, env=environment, text=True, **streams)


@contextlib.contextmanager
def recording(folder):
    """A process that has recorded a tape, and waits."""
    child = program(folder, "run", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == "recorded\n"
        yield child
    finally:
        child.kill()
        child.wait()


def of_files(run, seen):
    """The verbs that read runs."""
    verbs = ["replay", "compare", "waste", "explain", "report", "leaks", "fit", "tune", "info"]
    verbs += [] if run == LOG else ["verify"]  # A log of requests has no placements.
    for verb in verbs:
        seen.check(verb, printed(verb, run))
    for moment in ("peak", "last", 3):
        seen.check("explain", printed("explain", run, f"--at={moment}"))


def of_ranks(folder, seen):
    """Several runs, one of them broken."""
    ranks = folder / "ranks"
    ranks.mkdir()
    for run in (ONE_SHOT, OUT_OF_MEMORY, folder / "run.vtape"):
        (ranks / run.name).write_bytes(run.read_bytes())
    (ranks / "broken.vtape").write_bytes(b"no tape")
    for verb, *flags in (["compare", "--edit=scale:0.5"], ["waste"], ["fit", "--gpu=h100"], ["tune"], ["leaks"]):
        seen.check(verb, printed(verb, ranks, "--keep-going", *flags))
    seen.check("info", printed("info", ranks))
    for verb in ("compare", "waste", "fit", "tune", "leaks", "verify", "info"):
        seen.check(verb, printed(verb, TWO_DEVICES))


def of_processes(folder, seen):
    """The verbs of running and killed processes."""
    rings = {"VRAMTAPE_RINGS": str(folder / "rings")}
    with recording(folder) as child:
        seen.check("top", printed("top", child.pid, **rings))
        seen.check("exporter", printed("exporter", **rings))
        seen.check("attach", printed("attach", child.pid, "-o", folder / "attached.vtape", "--duration=1s", **rings))
    seen.check("recover", printed("recover", **rings))
    seen.check("recover", printed("recover", child.pid, "-o", folder / "recovered.vtape", **rings))
    # With a cache of its own: it removes the bridges there.
    seen.check("clean", printed("clean", **rings, VRAMTAPE_CACHE=str(folder / "cache")))


def of_settings(folder, seen):
    """Options that change the answer."""
    run, half = folder / "run.vtape", folder / "half.vtape"
    seen.check("edit", printed("edit", run, "scale:0.5", "-o", half))
    seen.check("plan", printed("plan", run, "-o", folder / "run.vplan"))
    seen.check("pack", printed("pack", run, "--time=1"))
    seen.check("pack", printed("pack", run, "--time=1", "--capacity=1", "-o", folder / "packed.csv"))
    seen.check("diff", printed("diff", half, run, "--fail-on=peak:+2%"))
    seen.check("verify", printed("verify", half, f"--against={run}"))
    seen.check("import", printed("import", TWO_DEVICES, "-o", folder / "imported.vtape"))
    seen.check("view", printed("view", run, "-o", folder / "run.html", "--svg", folder / "run.svg"))
    for out in ("tables", "run.pickle"):
        seen.check("export", printed("export", run, "-o", folder / out))
    seen.check("replay", printed("replay", run, "--address-orders=3"))
    seen.check("fit", printed("fit", "--gpu=list"))
    for setting in (["--gpu=h100"], ["--capacity=64MiB"], ["--strategy=bfc", "--capacity=100MiB"]):
        seen.check("fit", printed("fit", run, *setting))
    for verb in ("replay", "compare", "waste", "explain", "tune"):
        seen.check(verb, printed(verb, run, "--edit=scale:0.5"))
        for trace in TRACES:
            seen.check(verb, printed(verb, trace, "--capacity=300MiB"))
    lines = (f"{name},{lower},{upper},{mib << 20}" for name, lower, upper, mib in LESS_IS_MORE)
    (folder / "less.csv").write_text("\n".join(["id,lower,upper,size", *lines, ""]))
    seen.check("fit", printed("fit", folder / "less.csv"))
    seen.check("view", printed("view", TRACES[1], "-o", folder / "trace.html"))
    for trace in TRACES:
        meta = json.loads(Path(f"{str(trace)[: -len('.pickle.zst')]}.json").read_text())
        for change in (0, 1):  # The statistics of another run differ.
            meta["memory_stats"]["num_alloc_retries"] += change
            (folder / "meta.json").write_text(json.dumps(meta))
            seen.check("verify", printed("verify", trace, f"--meta={folder / 'meta.json'}"))


def served(run, seen):
    """The line with which a served page begins."""
    with subprocess.Popen(
        [COMMAND, "view", "--serve", "--json", str(run)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        seen.check("view", json.loads(server.stdout.readline()))
        server.terminate()


def of_messages(seen):
    """Messages of every form, and a text without one."""
    lines = (DATA / "messages" / "messages.jsonl").read_text().splitlines()
    text = "\n\n".join(json.loads(line)["message"] for line in lines)
    for stdin in (text, "Tried 3.00 GiB in vain"):
        seen.check("explain", printed("explain", "--message", stdin=stdin))


def test_every_verb_with_json_has_a_schema():
    verbs = subprocess.run([COMMAND, "--help"], check=True, capture_output=True, text=True).stdout
    verbs = verbs.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    verbs = [line.split()[0] for line in verbs if line.startswith("  ") and line[2] != " "]
    known = set()
    for verb in set(verbs) - {"help"}:
        shown = subprocess.run([COMMAND, verb, "--help"], check=True, capture_output=True, text=True).stdout
        known |= {verb} if "--json" in shown else set()
    assert {f"{verb}.json" for verb in known} | {"defs.json", *OF_TORCH} == set(DOCUMENTS), known


def test_the_schemas_are_schemas_with_descriptions():
    for name, document in DOCUMENTS.items():
        Draft202012Validator.check_schema(document)
        version = document["$id"].rsplit("/", 2)[1:]
        assert version == ["1.0", name], document["$id"]
        for pointer in properties(name):
            assert at(name, pointer).get("description"), f"{name}#{pointer} has no description"


def test_every_output_has_the_fields_of_its_schema_and_no_others():
    seen = Seen()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rings").mkdir()
        of_processes(folder, seen)
        served(ONE_SHOT, seen)
        assert program(folder, "host", "host", strategy="stitch", stderr=subprocess.DEVNULL).wait() == 1
        for run in (*RUNS, *(folder / f"{name}.vtape" for name in ("run", "attached", "recovered", "host"))):
            of_files(run, seen)
        of_ranks(folder, seen)
        of_settings(folder, seen)
        of_messages(seen)
    places = {(name, pointer) for name in set(DOCUMENTS) - set(OF_TORCH) for pointer in properties(name)}
    never = sorted(f"{name}#{pointer}" for name, pointer in places - seen.places)
    assert never == sorted(UNSEEN), "\n".join(["not printed, or printed though in UNSEEN:", *set(never) ^ set(UNSEEN)])


def test_tools_of_assistants_answer_with_their_schemas():
    """The server's own schemas: those of the files, each in one document."""
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    calls = [
        ("explain_message", {"text": "CUDA out of memory. Tried to allocate 2.00 GiB"}),
        *((verb, {"run": str(TRACES[0])}) for verb in ("explain", "report", "info", "replay", "verify")),
        *(
            (verb, {"runs": [str(ONE_SHOT), str(OUT_OF_MEMORY)]})
            for verb in ("waste", "leaks", "compare", "tune", "fit")
        ),
        *((verb, {"runs": [str(TRACES[0])]}) for verb in ("waste", "leaks", "compare", "tune", "fit")),
        ("diff", {"before": str(ONE_SHOT), "after": str(OUT_OF_MEMORY)}),
    ]
    with subprocess.Popen([COMMAND, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def send(**message):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()

        def ask(method, **params):
            send(id=1, method=method, params=params)
            return json.loads(server.stdout.readline())["result"]

        ask("initialize", **initialize)
        send(method="notifications/initialized")
        schemas = {tool["name"]: tool["outputSchema"] for tool in ask("tools/list")["tools"]}
        for schema in schemas.values():
            Draft202012Validator.check_schema(schema)
        for name, arguments in calls:
            result = ask("tools/call", name=name, arguments=arguments)
            assert not result["isError"], (name, result)
            # Without the files: a reference that leads out of the document is an error.
            errors = list(Draft202012Validator(schemas[name]).iter_errors(result["structuredContent"]))
            assert not errors, f"{name}: {best(errors)}"
        assert {name for name, _ in calls} | {"top"} == set(schemas)
        server.stdin.close()
        assert server.wait(60) == 0


if __name__ == "__main__":
    run_cases("__main__")
