"""Lightning's Trainer, with our callback in its log."""

import json
import tempfile
from pathlib import Path

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from vramtape.integrations.lightning import MemoryCallback


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


lines = []
with tempfile.TemporaryDirectory() as folder:
    callback = MemoryCallback(snapshot_step=3, snapshot_dir=folder, log=lines.append)
    logger = CSVLogger(folder)
    trainer = lightning.Trainer(
        accelerator="gpu",
        devices=1,
        max_steps=4,
        accumulate_grad_batches=2,
        log_every_n_steps=2,
        logger=logger,
        callbacks=[callback],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), DataLoader(TensorDataset(torch.zeros(64, 64)), batch_size=4))
    snapshots = sorted(path.name for path in Path(folder).glob("memory-*"))
    logged = (Path(logger.log_dir) / "metrics.csv").read_text()
assert [line.split("]")[0] for line in lines] == ["[step 2", "[step 4"], lines
assert "memory_peak_gb" in logged, logged
assert "memory-rank0-device0-step3.pickle" in snapshots, snapshots
print(json.dumps({"snapshots": snapshots}))
