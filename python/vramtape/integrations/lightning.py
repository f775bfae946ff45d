"""GPU memory in the log of Lightning's ``Trainer``.

>>> from vramtape.integrations.lightning import MemoryCallback
>>> Trainer(callbacks=[MemoryCallback()])
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # Under its older name.
    from pytorch_lightning import Callback

from ..monitor import Monitor


class MemoryCallback(Callback):  # type: ignore[misc]
    """Logs the memory of each interval of ``log_every_n_steps`` steps, and takes the snapshot at its step.

    The numbers of :func:`vramtape.get_memory_stats` go to the trainer's loggers too, as ``memory_peak_gb`` and so on.

    :param options: those of :class:`vramtape.Monitor`
    """

    def __init__(self, **options: Any) -> None:
        self.monitor = Monitor(**options)
        self._snapshot_step = self.monitor.snapshot_step
        self.monitor.snapshot_step = None  # A step that is not logged may be the one.
        self._last_step = 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        step = trainer.global_step
        if step == self._last_step:  # Gradients of several batches make one step.
            return
        self._last_step = step
        if step == self._snapshot_step:
            self.monitor.snapshot(step)
        if step % max(trainer.log_every_n_steps, 1) == 0 and trainer.is_global_zero:
            stats = self.monitor.report(step)
            in_gib = {f"memory_{name}": value for name, value in stats.items() if name.endswith("_gb")}
            pl_module.log_dict(in_gib, rank_zero_only=True)
