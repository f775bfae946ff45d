"""One process of the GPU suite: one way to be allocated, every part one after the other.

    session.py ROUTE [--simulated] [--part PART]      prints one line of JSON

What a part raises is its result; the others still run. The order matters: the last part fills the device.
"""

import argparse
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.environ.get("VRAMTAPE_PACKAGE", HERE)]

ROUTES = ("native", "pluggable", "bridge", "observe")
# Parts that are about the driver alone.
DRIVER_PARTS = ("device", "price", "pages", "busy", "aliases", "persistent")


def activate(route, simulated):
    """Makes the route active, before anything uses CUDA."""
    if not simulated:
        os.environ.pop("VRAMTAPE_SIMCUDA", None)
    import vramtape

    if simulated:
        from vramtape import _runtime

        _runtime.use_simcuda()
    import torch

    if route == "bridge":
        from vramtape._bridge.check import check

        problems = check(torch).problems
        if problems:  # It was built for another torch, and cannot be built here.
            print(json.dumps({"skipped": f"torch {torch.__version__}: {'; '.join(problems)}"}))
            sys.exit()
    if route != "native":
        taken = vramtape.install(route=route)
        assert taken == route, f"asked for {route}, got {taken}"
    return torch


def start(route, simulated):
    """The route, and PyTorch so that the same operations have the same results."""
    activate(route, simulated)
    torch = be_deterministic()
    if simulated:
        torch.backends.cudnn.enabled = False
    torch.cuda.init()
    return torch


def be_deterministic():
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic with it.
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)  # Fills what torch.empty gives with NaN, too.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    return torch


def run(parts, simulated):
    """What each part answered, and how long it took."""
    results = {}
    for name, part in parts:
        print(f"  {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            result = part(simulated)
        except Exception as error:  # The result of this part; the next one is asked all the same.
            result = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        results[name] = {**result, "seconds": round(time.monotonic() - began, 2)}
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("route", choices=ROUTES)
    parser.add_argument("--simulated", action="store_true", help="on the simulated driver: small, and no values")
    parser.add_argument("--part", action="append", help="only this part")
    options = parser.parse_args()
    torch = start(options.route, options.simulated)
    import aliases
    import capacity
    import collectives
    import device
    import graphs
    import persistent
    import pools
    import price
    import sharing
    import streams
    import training

    parts = [
        ("training", training.run),
        ("streams", streams.run),
        ("graphs", graphs.run),
        ("compiled", graphs.run_compiled),
        ("pools", pools.run),
        ("sharing", lambda simulated: sharing.run(options.route, simulated)),
        ("collectives", lambda simulated: collectives.run(options.route, simulated)),
        ("empty", price.run_empty),
        ("device", device.run),
        ("price", price.run_driver),
        ("pages", price.run_pages),
        ("busy", price.run_busy),
        ("aliases", aliases.run),
        ("persistent", persistent.run),
        ("capacity", capacity.run),
    ]
    if options.route != "native":  # The driver does not depend on its caller.
        parts = [part for part in parts if part[0] not in DRIVER_PARTS]
    if options.part:
        parts = [part for part in parts if part[0] in options.part]
    results = run(parts, options.simulated)
    print(
        json.dumps(
            {
                "route": options.route,
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
                "device": torch.cuda.get_device_name(),
                "parts": results,
            }
        )
    )


if __name__ == "__main__":
    main()
