"""The pytest plugin: limits of GPU memory as tests, also on machines without a GPU (docs/ci.md).

``--vramtape`` turns it on. Without the flag it registers its options and markers and imports nothing else.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

_MARKERS = (
    "limit_vram(limit, *, reserved=None): fail the test if it allocates (or reserves) more GPU memory, such as '4 GiB'",
    "limit_vram_leaks(limit): fail the test if it leaves more GPU memory allocated than it found",
)
_TOP = 5
_STACKS = 3
_WHETHER = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vramtape", "GPU memory")
    group.addoption("--vramtape", action="store_true", help="measure and limit the GPU memory of tests")
    group.addoption(
        "--vramtape-sim",
        metavar="GPU",
        nargs="?",
        const="",
        help="--vramtape on a simulated GPU: --vramtape-sim or --vramtape-sim=h100 (a name of `vramtape fit --gpu "
        "list`, or a size such as 24GiB). Without a GPU it is simulated anyway",
    )
    group.addoption("--vramtape-top", metavar="N", type=int, help=f"tests in the summary (0: all; default: {_TOP})")
    group.addoption(
        "--vramtape-stacks",
        metavar="N",
        type=int,
        help=f"frames of your code for each holder in a report (0: all; default: {_STACKS})",
    )
    group.addoption("--hide-vramtape-summary", action="store_true", help="print no summary at the end")
    parser.addini("vramtape", "--vramtape", type="bool", default=False)
    parser.addini("vramtape_sim", "the GPU of --vramtape-sim", default=None)
    parser.addini("vramtape_top", "--vramtape-top", default=_TOP)
    parser.addini("vramtape_stacks", "--vramtape-stacks", default=_STACKS)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Comes before any conftest, which may import torch: then it is too late for another driver."""
    if "--vramtape-sim" in args:  # Else the path of the tests behind it would be the GPU.
        args[:] = ["--vramtape-sim=" if one == "--vramtape-sim" else one for one in args]
        option = copy.copy(early_config.option)
        early_config.known_args_namespace = parser.parse_known_args(args, namespace=option)
    _begin(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _begin(config, config.option)  # Named in `pytest_plugins` of a conftest, this is the first call.


def _begin(config: pytest.Config, options: Any) -> None:
    """Registers the measuring plugins, once and if they are wanted."""
    is_wanted = options.vramtape or options.vramtape_sim is not None or config.getini("vramtape")
    if not is_wanted or _WHETHER in config.stash or options.help or options.version:
        return
    config.stash[_WHETHER] = True
    from ._ci import begin

    begin(config, options)
