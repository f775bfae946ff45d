"""What grows in this process, from the ring that records it anyway, and what in Python holds it."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable

from . import _holders, _profile, _runtime

# Blocks of a row whose chains are searched: the oldest, the newest and one between them.
CHAINS = 3


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
    for row in found["rows"]:
        row["holders"] = _of_row(row["blocks"])
    return found


def _of_row(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chains to some of the blocks, each once, and the blocks that they were found for."""
    owners = _holders.tensors_in([(block["addr"], block["size_bytes"]) for block in blocks])
    hidden = [owners, *owners.values()]
    addresses = [block["addr"] for block in blocks if block["addr"] in owners]
    chosen = dict.fromkeys(addresses[at] for at in (0, len(addresses) // 2, -1)) if addresses else {}
    found: list[dict[str, Any]] = []
    for address in list(chosen)[:CHAINS]:
        owner, how = owners[address]
        chain = _holders.chain(owner, hidden) + ([how] if how else [])
        found.append({"addr": address, "chain": chain, "text": " > ".join(chain)})
    return found
