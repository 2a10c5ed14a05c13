"""Trains the model of `tiny_wav2vec2` in Lightning, for `kills`: python killed_lightning.py folder"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import kills
import tiny_wav2vec2
import torch
import toy
from lightning import pytorch as lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from ctcdro.integrations.lightning import CTCDROCallback, ResumableLoader

NUM_EPOCHS = 5


class Recognizer(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model, self.criterion = tiny_wav2vec2.Recognizer(), toy.make_criterion()

    def training_step(self, batch, batch_idx):
        return tiny_wav2vec2.batch_loss(self.model, self.criterion, batch)

    def validation_step(self, batch, batch_idx):
        self.log("loss", tiny_wav2vec2.batch_loss(self.model, self.criterion, batch), batch_size=1)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(folder: Path) -> None:
    lightning.seed_everything(0)
    kills.report_steps()
    corpus, development = tiny_wav2vec2.Waveforms(), tiny_wav2vec2.Waveforms(9, seed=1)
    loader = DataLoader(corpus, batch_sampler=corpus.sampler(), collate_fn=toy.collate, num_workers=1)
    validation_loader = DataLoader(development, batch_size=3, collate_fn=toy.collate)
    recognizer = Recognizer()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=NUM_EPOCHS,
        logger=False,
        callbacks=[ModelCheckpoint(folder, every_n_train_steps=2, save_last=True), CTCDROCallback()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(recognizer, ResumableLoader(loader), validation_loader, ckpt_path="last")
    kills.write_result(folder, recognizer)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # Lightning gives much advice
    main(Path(sys.argv[1]))
