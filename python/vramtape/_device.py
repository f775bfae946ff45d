"""Which device a caller means, who names it as in ``torch.cuda``."""

from __future__ import annotations

import operator
import re
from typing import Any, Optional, Union

Device = Union[int, str, Any, None]


def index(device: Device) -> Optional[int]:
    """The number of a device: of ``1``, ``"cuda:1"`` or ``torch.device("cuda", 1)``. None is the current device.

    Imports nothing: asking for memory begins nothing.

    :raises TypeError: for what is no name of a device
    :raises ValueError: for a device that is not CUDA's
    """
    if device is None:
        return None
    wrong = f"device={device!r} names no CUDA device: write 1, 'cuda:1' or torch.device('cuda', 1)"
    if hasattr(device, "type"):  # A torch.device.
        device = str(device)
    if isinstance(device, str):
        found = re.fullmatch(r"cuda(?::(\d+))?", device)
        if found is None:
            raise ValueError(wrong)
        return None if found[1] is None else int(found[1])
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(wrong)
    number = operator.index(device)
    if number < 0:
        raise ValueError(wrong)
    return number
