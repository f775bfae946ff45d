"""Runs every case under one route, each in a process forked before CUDA begins, and prints the results as JSON.

run.py ROUTE, with `native` for PyTorch's own allocator. An unavailable route is {"unavailable": why}.
"""

import json
import os
import pickle
import signal
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "python")]

import harness

CASE_SECONDS_MAX = 60


def main(route):
    os.environ.setdefault("VRAMTAPE_LIBRARY", harness.LIBRARY)
    os.environ.setdefault("VRAMTAPE_CONF", "ring_events:16384")  # One is made for each case.
    harness.load_simcuda()
    import torch

    warnings.simplefilter("ignore")
    if route != "native":
        import vramtape

        try:
            # The route is asked for by name, so that nothing falls back to another.
            vramtape.install(route=route)
        except vramtape.InstallError as error:
            print(json.dumps({"unavailable": str(error)}))
            return
    # A snapshot with stacks imports this, and 880 modules with it: once, not in every fork.
    import torch._inductor.codecache
    from cases import CASES, has_all
    from normal import error_of, normal

    results = {}
    for case in CASES:
        if not has_all(torch, case):
            continue
        results[case.name] = in_a_fork(lambda case=case: result_of(torch, case, normal, error_of))
    print(json.dumps({"results": results, "entry_points": entry_points(torch)}))


def result_of(torch, case, normal, error_of):
    """The result of the case: a value in normal form, or the exception."""
    try:
        return {"value": normal(case.run(torch))}
    except Exception as error:
        return {"error": error_of(error)}


def in_a_fork(body):
    """The body's answer, from a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(CASE_SECONDS_MAX)
        with os.fdopen(writer, "wb") as answer:
            pickle.dump(body(), answer)
        if "vramtape" in sys.modules:
            sys.modules["vramtape._runtime"].load().vramtape_finish()  # A ring of each would fill the memory.
        os._exit(0)  # The interpreter's end is not what is tested.
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(text) if text else {"error": ["died", f"with status {status}"]}


def entry_points(torch):
    """Every name under which this torch's C module has to do with an accelerator's memory, or may have."""
    prefixes = ("_cuda_", "_accelerator_")
    names = [name for name in dir(torch._C) if name.startswith(prefixes)]
    for kind in ("_MemPool", "_CUDAGraph"):
        members = vars(getattr(torch._C, kind))
        names += [f"{kind}.{name}" for name in members if not name.startswith("__") and "pybind11" not in name]
    return sorted(names)


if __name__ == "__main__":
    main(sys.argv[1])
