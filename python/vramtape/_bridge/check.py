"""Checks the bridge's requirements on this machine, for ``vramtape doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from . import build, toolchain, trust


@dataclass(frozen=True)
class Check:
    """Whether the bridge is available for a torch, and why not.

    ``built`` is the file, if there is one already; ``compiler`` what would build it. ``problems`` are sentences that
    say what is missing and what to do; empty if the bridge is available.
    """

    built: Optional[Path]
    compiler: str
    problems: tuple[str, ...]


def check(torch: Any) -> Check:
    """Looks, and builds nothing."""
    name = f"{build.key(torch)}.so"
    prebuilt, compiled = build.PREBUILT / name, build.cache() / name
    tools = toolchain.find(torch)
    try:
        built = prebuilt if prebuilt.is_file() else compiled if trust.is_ours(compiled) else None
        problems = [] if built else list(tools.missing)
    except trust.Untrusted as error:
        built, problems = None, [str(error)]
    failed = build.failure(torch)
    if not built and failed.is_file():
        problems.append(f"the build failed (remove {failed} to try again): {failed.read_text()}")
    return Check(built, tools.compiler, tuple(problems))
