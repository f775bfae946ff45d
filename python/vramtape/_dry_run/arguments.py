"""The command line of ``vramtape dry-run``."""

from __future__ import annotations

import argparse

from .. import _text
from .._launch import run
from ..routes import ALL
from . import search, variants

DEFAULT_GPU = "a100-80gb"
DEFAULT_MARGIN = 0.01
_ABOUT = """Runs a program on a simulated GPU and reports the memory that it takes on a real one. Allocations are those
of a GPU; kernels do nothing, so the values of results are not."""
_MORE = """Exit codes: 0 fits, 1 does not fit, 2 usage, 3 the program failed, 4 incomplete. PROGRAM is a script or a
command such as torchrun, as for `vramtape run`."""


def make_parser(verb: str) -> argparse.ArgumentParser:
    """The options, and the program with its arguments."""
    made = _text.Parser(
        prog=f"vramtape {verb}",
        usage=f"vramtape {verb} [OPTIONS] PROGRAM ARGS...\n       vramtape {verb} [OPTIONS] -m MODULE ARGS...",
        description=_ABOUT,
        epilog=_MORE,
        allow_abbrev=False,
    )
    made.add_argument(
        "--gpu",
        metavar="GPU",
        help=f"the GPU, NAME or NAME:COUNT as h100:8 (`vramtape fit --gpu list` has the names), a .toml file, a size "
        f"such as 24GiB, or `all` for a table of them; {DEFAULT_GPU} if left out",
    )
    made.add_argument("--steps", type=_positive, metavar="N", help="end each process after N optimizer steps")
    made.add_argument(
        "--fit",
        type=_parameter,
        metavar="NAME=LOW..HIGH",
        help="find the largest value that fits; {NAME} in the program's arguments, else the variable NAME, has it",
    )
    made.add_argument(
        "--vary",
        type=_choice,
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="a table over values, which the program has as with --fit; may be repeated",
    )
    made.add_argument(
        "--strategy",
        action="append",
        default=[],
        metavar="NAME[:SETTINGS]",
        help="add a replay under a strategy of `vramtape compare` to the table; may be repeated",
    )
    made.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="SETTINGS",
        help="add a replay under settings as in PYTORCH_CUDA_ALLOC_CONF to the table; may be repeated",
    )
    made.add_argument(
        "--world-size", metavar="N", help="run single ranks of a distributed job of N; the others are absent"
    )
    made.add_argument("--rank", metavar="RANKS", help="the ranks to run, as 0,7 (default: 0)")
    made.add_argument(
        "--nccl-log",
        metavar="FILE",
        help="take the memory of NCCL from a log of real GPUs (NCCL_DEBUG_SUBSYS=ALLOC,P2P) instead of an estimate",
    )
    made.add_argument(
        "--bounds",
        action="store_true",
        help="run again with the least and the most elements of guessed shapes, if there are some",
    )
    made.add_argument(
        "--margin",
        type=_percent,
        metavar="PERCENT",
        default=100 * DEFAULT_MARGIN,
        help="memory of the device that has to stay free (default: %(default)s)",
    )
    made.add_argument(
        "--calibrate",
        metavar="RUN",
        help="compare with a recorded run of the program: a tape, or a memory snapshot of PyTorch",
    )
    made.add_argument("--json", metavar="FILE", help="write the result as JSON; `-` prints it instead of the text")
    made.add_argument("--markdown", metavar="FILE", help="write it as Markdown for a pull request; `-` prints it")
    made.add_argument("--html", metavar="FILE", help="write the page of the fullest device")
    made.add_argument("--route", choices=["auto", *ALL], help="the way into PyTorch; auto if left out")
    made.add_argument("--conf", metavar="SETTINGS", default="", help="changes to VRAMTAPE_CONF: key:value,key:value")
    made.add_argument("-o", "--output", metavar="FOLDER", help="keep the tapes there; it has to be empty or absent")
    made.add_argument("-q", "--quiet", action="store_true", help="print warnings and the result only")
    run.add_program(made)
    return made


def _parameter(text: str) -> search.Parameter:
    try:
        return search.Parameter.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _choice(text: str) -> variants.Choice:
    try:
        return variants.Choice.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps: write a whole number above 0")
    return int(text)


def _percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 <= percent < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of a device: write percent, from 0 to less than 100")
    return percent
