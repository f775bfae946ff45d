"""``--world-size``: single ranks of a distributed job, each in a run of its own; the others are absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from .._sizes import show
from .._text import one_line
from . import peaks
from . import text as text_of_run
from .job import Gpu, Job
from .result import VERSION
from .text import aligned
from .verdict import Verdict

_WORLD_MAX = 1 << 20
_PER_NODE = 8
# The exit code of the whole is that of the first of these verdicts that a rank has.
_ORDER = (Verdict.FAILED, Verdict.INCOMPLETE, Verdict.DOES_NOT_FIT, Verdict.FITS)
_HEAD = ("rank", *peaks.HEAD, "at most", "verdict")
# Programs that start the ranks themselves.
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "fabric")


@dataclass(frozen=True)
class Ranks:
    """Some ranks of a job."""

    world_size: int
    ranks: tuple[int, ...]

    @classmethod
    def read(cls, world_size: Optional[str], ranks: Optional[str]) -> Ranks:
        """Reads the options.

        :raises ValueError: for numbers that are none, or ranks that are not in the job
        """
        if world_size is None:
            raise ValueError(f"--rank={ranks}: say how many ranks the job has, with --world-size")
        size = _number(world_size)
        if size is None or not 1 <= size <= _WORLD_MAX:
            raise ValueError(f"--world-size={world_size}: write the number of ranks, 1 to {_WORLD_MAX}")
        found = []
        for word in (ranks or "0").split(","):
            rank = _number(word)
            if rank is None or rank >= size:
                raise ValueError(
                    f"--rank={ranks}: {word!r} is no rank of {size}: write 0 to {size - 1}, as 0,{size - 1}"
                )
            if rank not in found:
                found.append(rank)
        return cls(size, tuple(found))

    def environment(self, rank: int, per_node: int) -> dict[str, str]:
        """The variables that torchrun sets for a rank."""
        node_ranks = min(per_node, self.world_size)
        numbers = {
            "RANK": rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": rank % node_ranks,
            "LOCAL_WORLD_SIZE": node_ranks,
            "GROUP_RANK": rank // node_ranks,
            "GROUP_WORLD_SIZE": -(-self.world_size // node_ranks),
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": self.world_size,
            "MASTER_PORT": 29500,
        }
        named = {"MASTER_ADDR": "localhost", "ROLE_NAME": "default", "TORCHELASTIC_RUN_ID": "none"}
        return {**{name: str(number) for name, number in numbers.items()}, **named}


def _number(word: str) -> Optional[int]:
    word = word.strip()
    return int(word) if word.isascii() and word.isdigit() else None


def each_rank(
    job: Job, per_node: Optional[int], wanted: Ranks, margin: float, run: Callable[[Job, int], dict[str, Any]]
) -> dict[str, Any]:
    """Runs each wanted rank of a job with ``run``.

    :param per_node: the GPUs of a node; None for the usual number
    :raises ValueError: for a program that starts ranks itself
    """
    # A command, or Python and its script or module; the program's own arguments may have any name.
    for word in [word for word in job.command if not word.startswith("-")][:2]:
        if Path(word).name in _LAUNCHERS:
            raise ValueError(f"--world-size runs single ranks: name the script without {Path(word).name}")
    per_node = per_node or min(_PER_NODE, wanted.world_size)
    job = replace(job, gpu=Gpu(job.gpu.name, per_node, job.gpu.is_default))
    rows: list[dict[str, Any]] = []
    for rank in wanted.ranks:
        environment = {**job.environment, **wanted.environment(rank, per_node)}
        rows.append({"rank": rank, "result": run(replace(job, environment=environment), rank)})
    verdicts = {row["result"]["exit_code"] for row in rows}
    return {
        "version": VERSION,
        "command": job.command,
        "world_size": wanted.world_size,
        "margin": margin,
        "exit_code": next(verdict.value for verdict in _ORDER if verdict.value in verdicts),
        "ranks": rows,
    }


def text(answer: dict[str, Any]) -> str:
    """The ranks as a table, and the one that takes most in full."""
    worst = _worst(answer)
    head = f"{worst['result']['verdict']}: rank {worst['rank']} of {answer['world_size']} takes the most of those run"
    return "\n".join(
        [head, "", *aligned(_cells(answer)), "", f"rank {worst['rank']}", text_of_run.text(worst["result"])]
    )


def markdown(answer: dict[str, Any]) -> str:
    """The same for a pull request."""
    worst = _worst(answer)
    head, *rows = ["| " + " | ".join(map(one_line, row)) + " |" for row in _cells(answer)]
    table = "\n".join([head, "|" + "---:|" * (len(_HEAD) - 1) + "---|", *rows])
    return f"{table}\n\nRank {worst['rank']} of {answer['world_size']}:\n\n{text_of_run.markdown(worst['result'])}"


def _worst(answer: dict[str, Any]) -> dict[str, Any]:
    """The rank of the worst verdict, and of those the one that takes the most memory."""
    order = [verdict.value for verdict in _ORDER]
    worst: dict[str, Any] = min(
        answer["ranks"], key=lambda row: (order.index(row["result"]["exit_code"]), -_total_bytes(row["result"]))
    )
    return worst


def _total_bytes(result: dict[str, Any]) -> int:
    fullest = peaks.fullest(result)
    return int(fullest["device_total_bytes"]) if fullest else 0


def _cells(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_HEAD]
    for row in answer["ranks"]:
        result = row["result"]
        fullest = peaks.fullest(result)
        most = show(peaks.most_bytes(fullest)) if fullest else ""
        rows.append((str(row["rank"]), *peaks.sizes(peaks.peaks(fullest)), most, result["verdict"]))
    return rows
