"""What grows in this process, from the ring that records it anyway, and what in Python holds it."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any, Callable

from . import _holders, _profile, _runtime

# Owners of a block that are tried.
OWNERS = 4
# For the chains of all rows; the rows that grow fastest come first.
SECONDS_MAX = 10.0


def leaks(device: int, ask: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Asks about the records of a device that the ring has, and adds ``holders`` to each row.

    :raises RuntimeError: where nothing of the device is recorded in this process
    """
    if not _runtime.load().vramtape_ring_position(device):
        reason = _profile.reason(RuntimeError(f"nothing is recorded of device {device}"))
        raise RuntimeError(f"vramtape.leaks() reads the records of this process: {reason}")
    with tempfile.TemporaryDirectory(prefix="vramtape-leaks-") as folder:
        tape = os.path.join(folder, "ring.vtape")
        _runtime.call("tape_save", device, tape)
        found = ask(tape)
    until = time.monotonic() + SECONDS_MAX
    for row in found["rows"]:
        row["holders"] = _of_row(row["blocks"], until) if time.monotonic() < until else []
    return found


def _of_row(blocks: list[dict[str, Any]], until: float) -> list[dict[str, Any]]:
    """The chains to three of the blocks: the oldest, the newest and one between them."""
    owners = _holders.tensors_in([(block["addr"], block["size_bytes"]) for block in blocks])
    hidden = [owners, *owners.values(), *(one for some in owners.values() for one in some)]
    addresses = [block["addr"] for block in blocks if block["addr"] in owners]
    chosen = dict.fromkeys(addresses[at] for at in (0, len(addresses) // 2, -1)) if addresses else {}
    found: list[dict[str, Any]] = []
    for address in chosen:
        chain = _of_owners(owners[address], hidden, until)
        found.append({"addr": address, "chain": chain, "text": " > ".join(chain)})
    return found


def _of_owners(owners: list[tuple[Any, str]], hidden: list[Any], until: float) -> list[str]:
    """The chain to the first owner that has one: PyTorch keeps tensors that only an autograd graph refers to."""
    chains = []
    for owner, how in owners[:OWNERS]:
        chain = _holders.chain(owner, hidden, until) + ([how] if how else [])
        if not chain[0].startswith(_holders.UNKNOWN):
            return chain
        chains.append(chain)
    return chains[0]
