"""``--sim``: the program runs on the simulated driver, as on the GPU that is named or with this much memory."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from typing import Any

from .. import _runtime, _sizes
from .._query import query

# Of the simulated driver, which reads them when CUDA begins (simcuda/README.md).
_GPU = "VRAMTAPE_SIM_GPU"
_MEMORY = "VRAMTAPE_SIM_MEMORY"
_MEMORY_MIN_BYTES, _MEMORY_MAX_BYTES = 2 << 20, 1 << 40
# Of the GPUs in two sizes, the one that `vramtape fit` takes for the name alone (gpus/src/names.rs).
_USUAL_SIZE = {"a100": "a100-80gb", "v100": "v100-16gb"}


def spell_out(arguments: Sequence[str], with_value: Sequence[str]) -> list[str]:
    """The arguments with ``--sim=`` for a ``--sim`` without a GPU: the word after it is the program.

    :param with_value: the options before the program that take the next word
    """
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-", "--", "-m", "-c"):
        if arguments[at] == "--sim":
            return [*arguments[:at], "--sim=", *arguments[at + 1 :]]
        at += 2 if arguments[at] in with_value else 1
    return list(arguments)


def prepare(gpu: str, option: str = "--sim") -> str:
    """Puts the simulated driver into the environment, and returns what to print about it.

    :param gpu: a GPU that ``vramtape fit --gpu list`` names, the path of a ``.toml`` file, a size, or nothing
    :param option: the option of which it is the value, for errors
    :raises ValueError: where there is no such GPU
    :raises ImportError: where this vramtape has no simulated driver
    """
    os.environ[_runtime.SIMCUDA] = _runtime.simcuda()
    name = ""
    if gpu:
        variable, value, name = _choose(gpu, option)
        os.environ[variable] = value
    return f"simulated GPU{name}: allocations are real, values (losses, metrics) are not"


def describe(gpu: str, option: str = "--sim") -> str:
    """What the GPU is, for people.

    :raises ValueError: where there is no such GPU
    """
    return f"a simulated GPU{_choose(gpu, option)[2]}"


def _choose(gpu: str, option: str) -> tuple[str, str, str]:
    """The variable of the driver, its value, and what to add about the GPU."""
    size_bytes = _sizes.parse(gpu)
    if size_bytes is not None:
        if not _MEMORY_MIN_BYTES <= size_bytes <= _MEMORY_MAX_BYTES:
            raise ValueError(f"{option}={gpu}: write a size from 2MiB to 1024GiB")
        return _MEMORY, f"{size_bytes}B", f" of {_gib(size_bytes)}"
    if gpu.endswith(".toml"):
        if not os.path.isfile(gpu):
            raise ValueError(f"{option}={gpu}: there is no such file; docs/gpus.md has an example of one")
        return _GPU, os.path.abspath(gpu), f" of {gpu}"
    found = _find(gpu, option, query(["fit", "--gpu", "list", "--json"], None, None))
    capability = found["compute_capability"]
    context_bytes = int(found["context_bytes"])
    about = (
        f"compute capability {capability}, {_gib(int(found['total_bytes']))} with {_gib(context_bytes)} for the context"
    )
    return _GPU, found["name"], f" {found['name']} ({about})"


def _find(gpu: str, option: str, known: Any) -> dict[str, Any]:
    """The GPU of this name, or the only one whose name contains it; case and punctuation do not count."""
    name = _key(gpu)
    name = _key(_USUAL_SIZE.get(name, name))
    near = [one for one in known if name == _key(one["name"])] or [one for one in known if name in _key(one["name"])]
    if len(near) == 1:
        found: dict[str, Any] = near[0]
        return found
    names = [one["name"] for one in near] or difflib.get_close_matches(name, [one["name"] for one in known], 3)
    hint = f"did you mean {' or '.join(names)}? " if names else ""
    advice = f"{hint}`vramtape fit --gpu list` has the names; or write a size, as 24GiB"
    raise ValueError(f"{option}={gpu}: no one GPU has that name; {advice}")


def _key(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"
