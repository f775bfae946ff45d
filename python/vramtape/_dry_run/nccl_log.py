"""``--nccl-log FILE``: the device memory of NCCL as a job on real GPUs has logged it, in place of the estimate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Union

from .measure import Range

# The unit in which the driver gives memory.
_PAGE_BYTES = 2 << 20
# A line begins with the host, the process and the thread. Allocations of host memory have other words.
_ALLOCATED = re.compile(
    r"(?P<process>\S+:\d+):\d+ \[\d+\] NCCL INFO "
    r"(?:\S+:\d+ Cuda Alloc Size (?P<plain>\d+) pointer|CUMEM allocated shareable buffer \S+ size (?P<shared>\d+))"
)
_ADVICE = "record it with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALLOC,P2P"


def read(path: Union[str, Path]) -> Range:
    """Reads the memory of the process that took most.

    The log does not say what was freed. At least, the allocations share pages; at most, each has pages of its own, as
    with the driver's virtual memory, which NCCL uses where it logs ``CUMEM``.

    :raises ValueError: for a file that cannot be read, or has no allocation of NCCL
    """
    plain: dict[str, int] = {}
    paged: dict[str, int] = {}
    is_virtual = False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for found in filter(None, map(_ALLOCATED.search, file)):
                process, size_bytes = found["process"], int(found["plain"] or found["shared"])
                is_virtual = is_virtual or found["shared"] is not None
                plain[process] = plain.get(process, 0) + size_bytes
                paged[process] = paged.get(process, 0) + _pages(size_bytes)
    except OSError as error:
        raise ValueError(f"--nccl-log: cannot read {path}: {error.strerror}") from None
    if not plain:
        raise ValueError(f"--nccl-log: {path} has no line of an allocation of NCCL: {_ADVICE}")
    most = max(paged, key=lambda process: paged[process])
    lower_bytes, upper_bytes = _pages(plain[most]), paged[most]
    return Range(upper_bytes if is_virtual else lower_bytes, lower_bytes, upper_bytes)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
