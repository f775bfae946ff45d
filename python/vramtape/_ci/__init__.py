"""The part of the pytest plugin that runs with ``--vramtape``."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional

import pytest

from .driver import choose, enter
from .hooks import Tests
from .summary import Summary


class Options(NamedTuple):
    """The options of the command line, with those of the configuration file where it has none."""

    gpu: Optional[str]
    top: int
    stacks: int
    hides_summary: bool


def begin(config: pytest.Config, given: Any) -> None:
    """Chooses the driver, makes vramtape PyTorch's allocator, and registers the plugins.

    :raises pytest.UsageError: if tests cannot be measured here
    """
    options = _options(config, given)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    runs_tests = is_worker or not _is_distributed(given)
    line = choose(options.gpu)
    if runs_tests:
        line = f"{line}; {enter()}"
        config.pluginmanager.register(Tests(config.rootpath, options.stacks), "vramtape-tests")
    if not is_worker:
        summary = Summary(line, options.top, options.hides_summary)
        config.pluginmanager.register(summary, "vramtape-summary")


def _is_distributed(given: Any) -> bool:
    """Whether workers of pytest-xdist run the tests."""
    return bool(getattr(given, "numprocesses", None) or getattr(given, "tx", None))


def _options(config: pytest.Config, given: Any) -> Options:
    def number(name: str) -> int:
        value = getattr(given, name)
        value = config.getini(name) if value is None else value
        if not str(value).isdecimal():
            raise pytest.UsageError(f"{name}={value}: write a number, or 0 for all")
        return int(value)

    gpu = given.vramtape_sim if given.vramtape_sim is not None else config.getini("vramtape_sim")
    return Options(gpu, number("vramtape_top"), number("vramtape_stacks"), given.hide_vramtape_summary)
