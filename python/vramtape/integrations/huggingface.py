"""GPU memory in the log of Hugging Face's ``Trainer``.

>>> from vramtape.integrations.huggingface import MemoryCallback
>>> Trainer(model, arguments, train_dataset=data, callbacks=[MemoryCallback()])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..monitor import Monitor


class MemoryCallback(TrainerCallback):  # type: ignore[misc]
    """Logs the memory of each interval when the trainer logs, and takes the snapshot at its step.

    The numbers of :func:`vramtape.get_memory_stats` are in the trainer's ``state.log_history`` too, as
    ``memory_peak_gb`` and so on.

    :param options: those of :class:`vramtape.Monitor`
    """

    def __init__(self, **options: Any) -> None:
        self.monitor = Monitor(**options)
        self._snapshot_step = self.monitor.snapshot_step
        self.monitor.snapshot_step = None  # A step that is not logged may be the one.

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._snapshot_step:
            self.monitor.snapshot(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_local_process_zero and state.log_history:
            stats = self.monitor.report(state.global_step)
            in_gib = {f"memory_{name}": value for name, value in stats.items() if name.endswith("_gb")}
            state.log_history[-1].update(in_gib)
