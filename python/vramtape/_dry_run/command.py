"""The command line of ``vramtape dry-run``, and ``vramtape.dry_run``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn, Optional

from .. import _text
from .._files import check_place, whole
from .._launch import run, simulated
from .._launch.program import command_line
from . import bounds as guessed_bounds
from . import every_gpu, search, text, variants
from . import nccl_log as nccl_logs
from . import ranks as distributed
from .arguments import DEFAULT_GPU, DEFAULT_MARGIN, make_parser
from .job import Gpu, Job
from .one_run import OptionalPath, Then, run_apart, run_once

_DEVICES_MAX = 16
_NO_ONE_TAPE = "several runs have no one tape and page: leave out -o, --html and --calibrate (folder, html, calibrate)"


def dry_run(
    command: Sequence[str],
    gpu: Optional[str] = None,
    *,
    steps: Optional[int] = None,
    margin: float = DEFAULT_MARGIN,
    conf: str = "",
    route: Optional[str] = None,
    folder: OptionalPath = None,
    html: OptionalPath = None,
    world_size: Optional[int] = None,
    ranks: Sequence[int] = (0,),
    bounds: bool = False,
    calibrate: OptionalPath = None,
    nccl_log: OptionalPath = None,
) -> dict[str, Any]:
    """Runs a program on a simulated GPU, and returns the memory that it takes on a real one.

    :param command: the program and its arguments, such as ``["train.py", "--batch-size", "8"]``
    :param gpu: a name of ``vramtape fit --gpu list``, ``NAME:COUNT``, a ``.toml`` file or a size; ``a100-80gb`` if
        left out
    :param steps: end each process after so many steps of its first optimizer
    :param margin: the share of the device that has to stay free for the verdict ``fits``
    :param conf: changes to ``VRAMTAPE_CONF``
    :param route: the way into PyTorch; ``auto`` if left out
    :param folder: where the tapes are kept; the folder has to be empty or absent. If left out they are
        removed, unless memory was out
    :param html: a file for the page of the fullest device
    :param world_size: the ranks of a distributed job, of which single ones run; several have no ``folder`` and ``html``
    :param ranks: those that run
    :param bounds: run again with the least and with the most elements of guessed shapes, if there are some
    :param calibrate: a recorded run of the program, which the result is compared with
    :param nccl_log: a log of NCCL on real GPUs, with its memory
    :return: what ``vramtape dry-run --json`` writes (docs/schema/dry-run.json)
    :raises ValueError: when the program or the GPU is not known, the folder is not empty, or a rank is not in the job
    """
    words = command_line([str(word) for word in command], [sys.executable])
    if bounds:
        guessed_bounds.check()
    log = None if nccl_log is None else str(nccl_log)
    job = Job(words, parse_gpu(gpu), steps, conf, route=route, is_bounded=bounds, nccl_log=log)
    if world_size is None:
        return run_once(job, margin, folder, html, calibrate)
    wanted = distributed.Ranks.read(str(world_size), ",".join(map(str, ranks)))
    is_one = len(wanted.ranks) == 1
    if not is_one and (folder is not None or html is not None or calibrate is not None):
        raise ValueError(_NO_ONE_TAPE)

    def one(job: Job, _: int) -> dict[str, Any]:
        return run_once(job, margin, folder, html, calibrate) if is_one else run_apart(job, margin)

    return distributed.each_rank(job, _counted(job.gpu, gpu), wanted, margin, one)


def parse_gpu(named: Optional[str]) -> Gpu:
    """Reads ``NAME`` or ``NAME:COUNT``.

    :raises ValueError: for a count that is no number of devices
    """
    if named is None:
        return Gpu(DEFAULT_GPU, 1, is_default=True)
    name, colon, count = named.rpartition(":")
    if not colon:
        return Gpu(named, 1, is_default=False)
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= _DEVICES_MAX):
        raise ValueError(f"--gpu={named}: write the number of GPUs, 1 to {_DEVICES_MAX}, behind the colon, as h100:8")
    return Gpu(name, int(count), is_default=False)


def _counted(gpu: Gpu, named: Optional[str]) -> Optional[int]:
    """The number of GPUs, where the name says one."""
    return None if named in (None, gpu.name) else gpu.count


def main(verb: str, arguments: Sequence[str]) -> NoReturn:
    """Runs the command line and ends with the exit code of the verdict."""
    parser = make_parser(verb)
    options = parser.parse_args(arguments)
    words = run.program(parser, options)
    try:
        for path in (options.json, options.markdown, options.html):
            if path not in (None, "-"):
                check_place(path)
        gpu = parse_gpu(options.gpu)
        if options.bounds:
            guessed_bounds.check()
        if options.nccl_log:
            nccl_logs.read(options.nccl_log)
        wanted = None
        if options.world_size is not None or options.rank is not None:
            wanted = distributed.Ranks.read(options.world_size, options.rank)
        varied = None
        if options.vary or options.strategy or options.config:
            varied = variants.Variants.read(options.vary, options.strategy, options.config)
        if gpu.name == every_gpu.ALL or options.fit or wanted or varied:
            _main_of_several(words, gpu, options, wanted, varied)
        about = simulated.describe(gpu.name, "--gpu")
        default = "" if options.gpu else "; the default, --gpu names another"
        if not options.quiet:
            _text.say(f"dry run on {about}{default}. Allocations are real, values (losses, metrics) are not")
        job = _job(words, gpu, options)
        made = run_once(job, options.margin / 100, options.output, options.html, options.calibrate)
        _write(made, options)
    except run.NOT_STARTED as error:
        parser.error(str(error))
    sys.exit(made["exit_code"])


def _job(words: list[str], gpu: Gpu, options: argparse.Namespace) -> Job:
    return Job(
        words,
        gpu,
        options.steps,
        options.conf,
        route=options.route,
        is_bounded=options.bounds,
        nccl_log=options.nccl_log,
    )


def _main_of_several(
    words: list[str],
    gpu: Gpu,
    options: argparse.Namespace,
    wanted: Optional[distributed.Ranks],
    varied: Optional[variants.Variants],
) -> NoReturn:
    """``--gpu all``, ``--fit``, ``--world-size`` and the variants, of which each has a form of result."""
    is_every = gpu.name == every_gpu.ALL
    given = (wanted, varied, options.fit, is_every)
    names = ("--world-size", "--vary, --strategy and --config", "--fit", "--gpu all")
    named = [name for is_given, name in zip(given, names) if is_given]
    if len(named) > 1:
        raise ValueError(f"{named[0]} makes a table of its own: leave out {' and '.join(named[1:])}")
    is_one = wanted is not None and len(wanted.ranks) == 1
    if not is_one and (options.output or options.html or options.calibrate):
        raise ValueError(_NO_ONE_TAPE)

    def say(job: Job, of: str) -> None:
        if not options.quiet:
            _text.say(f"dry run on {simulated.describe(job.gpu.name, '--gpu')}{of}")

    def one(job: Job) -> dict[str, Any]:
        say(job, "")
        return run_apart(job, margin)

    def value(job: Job, value: int) -> dict[str, Any]:
        say(job, f", {options.fit.name}={value}")
        return run_apart(job, margin)

    def rank(job: Job, rank: int) -> dict[str, Any]:
        say(job, f", rank={rank}")
        if is_one:
            return run_once(job, margin, options.output, options.html, options.calibrate)
        return run_apart(job, margin)

    def variant(job: Job, label: str, then: Then) -> dict[str, Any]:
        say(job, label and f", {label}")
        return run_apart(job, margin, then)

    margin = options.margin / 100
    job = _job(words, gpu, options)
    form: ModuleType
    if wanted:
        form, made = distributed, distributed.each_rank(job, _counted(gpu, options.gpu), wanted, margin, rank)
    elif varied:
        form, made = variants, variants.every_variant(job, varied, margin, variant)
    elif is_every:
        form, made = every_gpu, every_gpu.every_gpu(job, margin, one)
    else:
        form, made = search, search.largest(job, options.fit, margin, value)
    _write(made, options, form)
    sys.exit(made["exit_code"])


def _write(made: dict[str, Any], options: argparse.Namespace, form: ModuleType = text) -> None:
    """Writes a result; ``form`` has its text and its Markdown."""
    for path, content in ((options.json, json.dumps(made, indent=2) + "\n"), (options.markdown, form.markdown(made))):
        if path is not None and path != "-":
            with whole(path) as part:
                part.write_text(content)
    if options.json == "-":
        print(json.dumps(made, indent=2))
    elif options.markdown == "-":
        print(_text.visible(form.markdown(made)), end="")
    else:
        print(_text.visible(form.text(made)))
