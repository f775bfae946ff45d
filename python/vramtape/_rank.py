"""The rank of this process."""

from __future__ import annotations

import os
import sys


def rank() -> int:
    """This process's rank in its job; 0 where there is none."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    try:
        return int(os.environ.get("RANK", "0"))
    except ValueError:
        return 0
