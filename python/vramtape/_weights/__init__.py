"""Weights in a dry run: sizes without bytes, so that a model of the GPU's size takes no memory of the host.

- ``hollow``: checkpoints whose data are holes in a file.
- ``pretrained``: ``from_pretrained`` where a model has a configuration, and no weights.
- ``hub``: downloads that end after the header of a file of weights.
- ``unfilled``: tensors on the host that are not initialised, converted or read.
"""

from __future__ import annotations

from pathlib import Path

from . import hub, pretrained, unfilled


def begin(folder: Path) -> None:
    """Begins in a process of a dry run, with hollow files in ``folder``, which the dry run removes at its end."""
    pretrained.begin(folder)
    hub.begin(folder / "hub")
    unfilled.begin(folder)
