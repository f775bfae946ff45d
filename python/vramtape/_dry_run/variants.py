"""``--vary``, ``--strategy`` and ``--config``: a program's variants and the allocator's settings, in one table.

Each combination of values is a run. Each strategy and each setting is a replay of this run: the program's requests do
not depend on the allocator.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Callable, Optional

from .. import _lab
from .._text import one_line
from .job import Job
from .measure import Measured, Range
from .one_run import Then
from .peaks import HEAD, PEAKS, sizes
from .result import VERSION
from .text import aligned
from .verdict import BEST_FIRST, Verdict, is_enough

_RUNS_MAX = 64
# One request, in minimalloc's form: enough to find mistakes in settings.
_ANY_RUN = "id,lower,upper,size\n0,0,1,512\n"


@dataclass(frozen=True)
class Choice:
    """A parameter of a program, and its values."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Choice:
        """Reads ``checkpoint=on,off``.

        :raises ValueError: for another text, or a value that is there twice
        """
        found = re.fullmatch(r"([A-Za-z_]\w*)=(.+)", text)
        values = tuple(found[2].split(",")) if found else ()
        if found is None or "" in values or len(set(values)) < len(values):
            raise ValueError(f"--vary={text}: write a name and different values, as checkpoint=on,off")
        return cls(found[1], values)


@dataclass(frozen=True)
class Setting:
    """A way to allocate: a strategy, or settings of PyTorch's; both empty are those of the run itself."""

    strategy: str = ""
    config: str = ""

    @property
    def label(self) -> str:
        return self.strategy or self.config or "as run"


@dataclass(frozen=True)
class Variants:
    """What the rows of the table are."""

    choices: tuple[Choice, ...]
    settings: tuple[Setting, ...]

    @classmethod
    def read(cls, choices: Sequence[Choice], strategies: Sequence[str], configs: Sequence[str]) -> Variants:
        """Takes the options.

        :raises ValueError: for a name that is there twice, or more runs than are sensible
        :raises vramtape.Error: for a strategy or settings that do not exist
        """
        names = [choice.name for choice in choices]
        if len(set(names)) < len(names):
            raise ValueError(f"--vary: name each parameter once, and its values together: {', '.join(names)}")
        made = cls(
            tuple(choices), (*(Setting(strategy=it) for it in strategies), *(Setting(config=it) for it in configs))
        )
        count = sum(1 for _ in made.combinations())
        if count > _RUNS_MAX:
            raise ValueError(f"--vary: {count} runs are too many: leave out values, up to {_RUNS_MAX} runs")
        with tempfile.TemporaryDirectory(prefix="vramtape-dry-run-") as folder:
            any_run = Path(folder, "one.csv")
            any_run.write_text(_ANY_RUN)
            for setting in made.settings:
                _replayed(any_run, None, setting)
        return made

    def combinations(self) -> Iterator[dict[str, str]]:
        names = [choice.name for choice in self.choices]
        return (dict(zip(names, values)) for values in product(*(choice.values for choice in self.choices)))


def _replayed(tape: Path, device: Optional[int], setting: Setting) -> dict[str, Any]:
    return _lab.replay(tape, setting.strategy or None, setting.config or None, device)


def every_variant(
    job: Job, variants: Variants, margin: float, run: Callable[[Job, str, Then], dict[str, Any]]
) -> dict[str, Any]:
    """Makes the table. ``run`` makes a dry run of a job, whose label is the second argument, and calls the third with
    its result while its tapes are there."""
    rows: list[dict[str, Any]] = []
    for values in variants.combinations():

        def note(made: dict[str, Any], measured: Measured, values: dict[str, str] = values) -> None:
            rows.extend(_rows(made, measured, values, variants.settings, margin))

        varied = job
        for name, value in values.items():
            varied = varied.with_value(name, value)
        run(varied, _label(values), note)
    verdicts = {row["verdict"] for row in rows}
    first = next(verdict for verdict in BEST_FIRST if verdict.words in verdicts)
    return {
        "version": VERSION,
        "command": job.command,
        "gpu": asdict(job.gpu),
        "margin": margin,
        "exit_code": first.value,
        "variants": rows,
    }


def _label(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _rows(
    made: dict[str, Any], measured: Measured, values: dict[str, str], settings: Sequence[Setting], margin: float
) -> Iterator[dict[str, Any]]:
    """The run itself, and its replays. A run without an answer has none."""
    fullest = measured.fullest
    peaks: dict[str, Optional[int]] = dict.fromkeys(PEAKS)
    if fullest is not None:
        peaks = dict(zip(PEAKS, (fullest.allocated.expected, fullest.reserved.expected, fullest.total.expected)))
    row = {"values": values, **asdict(Setting()), "verdict": made["verdict"], "why": made["why"], **peaks}
    yield row
    if fullest is None or fullest.fullest is None or made["verdict"] != Verdict.FITS.words:
        reason = f"not replayed: the verdict of the run is '{made['verdict']}'"
        for setting in settings:
            yield {**row, **asdict(setting), "why": [reason], **dict.fromkeys(PEAKS)}
        return
    for setting in settings:
        replay = _replayed(fullest.fullest, fullest.fullest_id, setting)
        # Other processes on the device take what they took.
        more = replay["peak_reserved_bytes"] - fullest.fullest_bytes
        others_bytes = fullest.allocated.expected - fullest.fullest_allocated_bytes
        reserved = Range(*(part + more for part in asdict(fullest.reserved).values()))
        total = reserved + fullest.context + fullest.outside
        why = [f"{replay['num_ooms']} requests of the replay are out of memory"] if replay["num_ooms"] else []
        fits = not why and is_enough(total.upper, fullest.memory_bytes, margin)
        yield {
            "values": values,
            **asdict(setting),
            "verdict": (Verdict.FITS if fits else Verdict.DOES_NOT_FIT).words,
            "why": why,
            # Strategies round otherwise.
            "peak_allocated_bytes": others_bytes + replay["peak_allocated_bytes"],
            "peak_reserved_bytes": reserved.expected,
            "device_total_bytes": total.expected,
        }


def text(answer: dict[str, Any]) -> str:
    """The table as lines."""
    return "\n".join([_headline(answer), "", *aligned(_cells(answer)), *_notes(answer)])


def markdown(answer: dict[str, Any]) -> str:
    """The table for a pull request."""
    head, *rows = ["| " + " | ".join(map(one_line, row)) + " |" for row in _cells(answer)]
    rule = "|---|---|" + "---:|" * len(PEAKS) + "---|"
    return "\n".join([f"### {_headline(answer)}", "", head, rule, *rows, *_notes(answer)]) + "\n"


def _headline(answer: dict[str, Any]) -> str:
    rows = answer["variants"]
    fitting = [row for row in rows if row["verdict"] == Verdict.FITS.words]
    if not fitting:
        return f"no variant of {len(rows)} fits on {answer['gpu']['name']}"
    least = min(fitting, key=lambda row: int(row["device_total_bytes"]))
    named = ", ".join(filter(None, (_label(least["values"]), _setting(least))))
    return f"{len(fitting)} of {len(rows)} variants fit on {answer['gpu']['name']}; the least memory has {named}"


def _setting(row: dict[str, Any]) -> str:
    return Setting(row["strategy"], row["config"]).label


def _cells(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    head = ("variant", "allocator", *HEAD, "verdict")
    rows = []
    for row in answer["variants"]:
        rows.append((_label(row["values"]), _setting(row), *sizes(row), row["verdict"]))
    return [head, *rows]


def _notes(answer: dict[str, Any]) -> list[str]:
    """Why a run has no answer."""
    unclear = [row for row in answer["variants"] if row["verdict"] != Verdict.FITS.words and row["why"]]
    notes = [": ".join(filter(None, (_label(row["values"]), _setting(row), "; ".join(row["why"])))) for row in unclear]
    return ["", *map(one_line, notes)] if notes else []
