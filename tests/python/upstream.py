"""Runs PyTorch's own tests of its allocator under its own allocator and under a route of ours, and compares.

    upstream.py PATH/TO/pytorch/test/test_cuda.py [--route bridge] [--strategy stitch] [--only REGEX] [--json FILE]
                [--logs FOLDER]

The file is PyTorch's, of the version that runs, and is not part of this repository; it needs expecttest and
hypothesis. Each test has a process of its own, forked before CUDA begins from one that has read PyTorch's testing
library. Assertions that do not hold are noted by their lines, and the test goes on. Those that do not hold under
PyTorch's own allocator are the machine's doing (simcuda computes no values); whatever else does not under ours, or
does, is a difference. Ends with 1 where one has no reason in `KNOWN` and
`KNOWN_OF_STITCH`.
"""

import argparse
import importlib
import importlib.util
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest
from concurrent.futures import ThreadPoolExecutor

import harness

# The parts that are about memory, whichever names a version of the file gives to the tests in them.
CLASSES = re.compile(r"Mem|Alloc|BlockState|CompileContext")
TESTS = re.compile(
    "alloc|memory|snapshot|pool|graph|oom|stream|checkpoint|pinned|cudart|leak|ipc|history|fraction|lazy_init"
)
NOT_MEMORY = re.compile(r"^TestCudaAutocast|^TestFXMemoryProfiler$|autocast|cublas|cudnn|cusparse")
# A test's name, how it ends under PyTorch's own allocator (None: anyhow), and why it cannot end so under the bridge.
KNOWN = {
    "test_allocator_backend": (None, "asks for backend:cudaMallocAsync, whose place vramtape takes"),
    "test_mempool_expandable": ("failed", "PyTorch 2.7 refuses a MemPool with expandable segments, vramtape does not"),
}
# The same for `--strategy stitch`.
KNOWN_OF_STITCH = {
    "test_allocator_settings": (None, "roundup_power2_divisions has no effect: stitch places requests as they are"),
}
SECONDS_MAX = 120


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as both:
        routes = ("native", options.route)
        native, ours = both.map(lambda route: serve(options, route, folder), routes)
    reasons = KNOWN | (KNOWN_OF_STITCH if options.strategy == "stitch" else {})
    rows = [row(test, native.get(test), ours.get(test), reasons) for test in {**native, **ours}]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    failed = show(rows, options.route)
    sys.exit(1 if failed else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="test_cuda.py of PyTorch's sources")
    parser.add_argument("--route", default="bridge", choices=("bridge", "pluggable", "observe"))
    parser.add_argument("--strategy", default="native", choices=("native", "stitch"), help="how ours places")
    parser.add_argument("--only", default="", metavar="REGEX", help="the tests whose CLASS.name has this in it")
    parser.add_argument("--json", metavar="FILE", help="where the table goes")
    parser.add_argument("--logs", metavar="FOLDER", help="where each test's output goes")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.file = os.path.abspath(options.file)
    if options.serve:
        run_all(options)
    return options


def serve(options, route, folder):
    """Every test's outcome under the route, in an environment that the Pythons that tests start are in as well."""
    arguments = [__file__, options.file, "--serve", route, "--only", options.only]
    if options.logs:
        os.makedirs(os.path.join(options.logs, route), exist_ok=True)
        arguments += ["--logs", os.path.abspath(os.path.join(options.logs, route))]
    path = [harness.PACKAGE["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]
    if route == "native":
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write("from vramtape import _runtime\n_runtime.use_simcuda()\n")
        path.insert(0, folder)
    else:
        run = ("run", "--route", route) if route != "observe" else ("record",)
        conf = f"strategy:{options.strategy},record:ring,ring_events:16384"
        arguments = ["-m", "vramtape", *run, "-q", "--conf", conf, *arguments]
    # Asking NVML whether there is a GPU leaves CUDA alone, and with it the way to fork.
    settings = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    environment = harness.clean_environment(**{**harness.PACKAGE, **settings})
    command = [sys.executable, *arguments]
    server = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(line) for line in server.stdout.splitlines())


def run_all(options):
    """The server: prints one line of JSON for each test."""
    import torch

    import vramtape

    assert vramtape.active_route() == (None if options.serve == "native" else options.serve)
    if "VRAMTAPE_SIMCUDA" in os.environ:
        torch.backends.cudnn.enabled = False
    for name in ("torch.testing._internal.common_cuda", "torch._dynamo", "torch.distributed"):
        importlib.import_module(name)  # Once, and not for each test.
    assert not torch.cuda.is_initialized(), "CUDA began before the tests did: they cannot be forked"
    _, names = in_a_fork(lambda: tests_of(load(options.file)), None)
    for name in names:
        if is_memory(name) and re.search(options.only, name):
            log = os.path.join(options.logs, f"{name}.txt") if options.logs else os.devnull
            died, outcome = in_a_fork(lambda name=name: run(options.file, name), log)
            print(json.dumps([name, outcome or ["died", died]]), flush=True)
    sys.exit(0)


def load(file):
    """PyTorch's file as a module, found from the folder it is in."""
    sys.path.insert(0, os.path.dirname(file))
    spec = importlib.util.spec_from_file_location("test_cuda", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_cuda"] = module
    spec.loader.exec_module(module)
    return module


def tests_of(module):
    """CLASS.name of every test, those made of parameters too."""
    kinds = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, unittest.TestCase)]
    own = [kind for kind in kinds if kind.__module__ == "test_cuda"]
    return [f"{kind.__name__}.{name}" for kind in own for name in unittest.TestLoader().getTestCaseNames(kind)]


def is_memory(name):
    kind, test = name.split(".")
    if NOT_MEMORY.search(kind) or NOT_MEMORY.search(test):
        return False
    return bool(CLASSES.search(kind) or TESTS.search(test))


def run(file, name):
    """One test's outcome: ["passed"], or what happened and the last line of why."""
    module = load(file)
    kind, test = name.split(".")
    case = getattr(module, kind)(test)
    untrue = go_on_after_assertions(case)
    result = unittest.TestResult()
    case.run(result)
    for _, text in result.failures + result.errors:
        print(text, file=sys.stderr)
    if result.skipped:
        return ["skipped", result.skipped[0][1].strip().splitlines()[0][:200]]
    reasons = [*untrue, *(last_line(text) for _, text in result.failures + result.errors)]
    return ["failed", "; ".join(reasons)[:400]] if reasons else ["passed", ""]


def go_on_after_assertions(case):
    """Lets the test go on where an assertion of its own does not hold, and notes which: what follows counts too."""
    untrue, open_checks = [], []

    def trying(name, check):
        def checked(*arguments, **options):
            if open_checks:  # Assertions are made of others.
                return check(*arguments, **options)
            open_checks.append(name)
            try:
                return check(*arguments, **options)
            except AssertionError:
                traceback.print_exc()
                lines = [frame.lineno for frame in traceback.extract_stack() if frame.filename == file]
                found = f"line {lines[-1]}: {name}"
                if found not in untrue:
                    untrue.append(found)
            finally:
                open_checks.clear()

        return checked

    file = sys.modules[type(case).__module__].__file__
    for name in dir(case):
        if name.startswith("assert") and not re.match(r"assert(Raises|Warns|Logs|NoLogs|Expected)", name):
            setattr(case, name, trying(name, getattr(case, name)))
    return untrue


def last_line(text):
    """The exception's own line of a traceback: the last that begins as one does."""
    lines = [line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    return (lines or text.strip().splitlines() or [""])[-1][:200]


def in_a_fork(body, log):
    """How the process ended, and the body's answer, if it came to one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        in_the_child(body, writer, log)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ended = f"took more than {SECONDS_MAX} s" if code == -signal.SIGALRM else f"ended with {code}"
    return ended, pickle.loads(text) if text else None


def in_the_child(body, writer, log):
    try:
        signal.alarm(SECONDS_MAX)
        if log:
            target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(target, 1)
            os.dup2(target, 2)
        answer = pickle.dumps(body())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer)
    except BaseException:
        traceback.print_exc()
    finally:
        if "vramtape" in sys.modules:
            sys.modules["vramtape._runtime"].load().vramtape_finish()  # A ring of each would fill the memory.
        os._exit(0)  # The interpreter's end is not what is tested.


def row(test, native, ours, reasons):
    """One line of the table."""
    native, ours = native or ["absent", ""], ours or ["absent", ""]
    same = native == ours
    under, known = reasons.get(test.split(".")[1], (None, ""))
    reason = known if not same and under in (None, native[0]) else ""
    return {"test": test, "native": native, "ours": ours, "same": same, "known": reason}


def show(rows, route):
    """Prints the table's differences and its sums; how many differences have no reason."""
    both = sum(one["native"][0] == one["ours"][0] == "passed" for one in rows)
    here = sum(one["same"] and one["native"][0] not in ("passed", "skipped") for one in rows)
    skipped = sum(one["same"] and one["native"][0] == "skipped" for one in rows)
    different = [one for one in rows if not one["same"]]
    for one in different:
        print(f"{'KNOWN' if one['known'] else 'DIFFERS'} {one['test']}: native {' '.join(one['native'])}")
        print(f"    {route} {' '.join(one['ours'])}  {one['known']}")
    known = sum(bool(one["known"]) for one in different)
    print(f"{len(rows)} tests: {both} pass under both, {here} fail alike under both, {skipped} are skipped under both,")
    print(f"{len(different)} differ, {known} of them for known reasons")
    return sum(not one["known"] for one in different)


if __name__ == "__main__":
    main()
