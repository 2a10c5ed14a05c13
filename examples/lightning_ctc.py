"""A Lightning script with CTC-DRO: python examples/lightning_ctc.py

Three synthetic languages, each with its own symbols and noise; the third is the noisiest. The lines that CTC-DRO adds
end in `# ctcdro`. The script keeps the checkpoint that is best for the worst language. Run the same command again to
resume after an interruption; the result is the same, dropout included.
"""

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from torchmetrics.text import CharErrorRate

import ctcdro  # ctcdro
from ctcdro.integrations.lightning import CTCDROCallback, ResumableLoader  # ctcdro

LANGUAGES, NOISE, NUM_SYMBOLS, FRAMES_PER_SECOND = ["clear", "plain", "noisy"], [0.2, 0.5, 0.9], 8, 25


def make_corpus(num_utterances: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    rng = np.random.default_rng(seed)
    corpus = []
    for number in range(num_utterances):
        group = number % len(LANGUAGES)
        symbols = 1 + NUM_SYMBOLS * group + rng.integers(NUM_SYMBOLS, size=rng.integers(4, 20))
        spoken = np.repeat(symbols, rng.integers(3, 7, size=len(symbols)))
        noise = NOISE[group] * rng.standard_normal((len(spoken), 25))
        corpus.append((torch.tensor(np.eye(25)[spoken] + noise, dtype=torch.float32), torch.tensor(symbols), group))
    return corpus


def collate(utterances):
    frames, targets, groups = zip(*utterances, strict=True)
    lengths = torch.tensor([len(x) for x in frames]), torch.tensor([len(y) for y in targets])
    return pad_sequence(frames), pad_sequence(targets, batch_first=True), *lengths, torch.tensor(groups)


class Recognizer(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(25, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 25)
        self.model = torch.nn.Sequential(*layers)
        self.criterion = ctcdro.CTCDROLoss(len(LANGUAGES), 1e-4, 0.5, group_names=LANGUAGES)  # ctcdro
        self.error_rates = torch.nn.ModuleList(CharErrorRate() for _ in LANGUAGES)

    def training_step(self, batch, batch_idx):
        frames, targets, num_frames, num_targets, groups = batch
        log_probs = self.model(frames).log_softmax(dim=-1)
        return self.criterion(log_probs, targets, num_frames, num_targets, groups)  # ctcdro

    def validation_step(self, batch, batch_idx):
        frames, targets, num_frames, num_targets, groups = batch
        best = self.model(frames).argmax(dim=-1).T
        for labels, num, target, num_target, group in zip(best, num_frames, targets, num_targets, groups, strict=True):
            recognized = "".join(chr(96 + label) for label in labels[:num].unique_consecutive() if label)
            self.error_rates[group].update([recognized], ["".join(chr(96 + label) for label in target[:num_target])])

    def on_validation_epoch_end(self):
        rates = {name: rate.compute() for name, rate in zip(LANGUAGES, self.error_rates, strict=True)}  # of all ranks
        self.log_dict({f"cer/{name}": rate for name, rate in rates.items()} | {"cer/worst": max(rates.values())})
        for rate in self.error_rates:
            rate.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main(folder: str = "lightning-example", num_epochs: int = 4) -> lightning.Trainer:
    lightning.seed_everything(0)
    corpus, development = make_corpus(900, seed=0), make_corpus(60, seed=1)
    durations = [len(frames) / FRAMES_PER_SECOND for frames, _, _ in corpus]
    groups = [group for _, _, group in corpus]
    sampler = ctcdro.LengthMatchedBatchSampler(durations, groups, batch_duration=20.0)  # ctcdro
    loader = ResumableLoader(DataLoader(corpus, batch_sampler=sampler, collate_fn=collate))  # ctcdro
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=num_epochs,
        logger=lightning.pytorch.loggers.CSVLogger(folder),
        log_every_n_steps=10,
        callbacks=[
            ModelCheckpoint(folder, monitor="cer/worst", mode="min"),
            ModelCheckpoint(folder, filename="latest", every_n_train_steps=20, save_last=True),
            CTCDROCallback(),  # ctcdro
        ],
    )
    trainer.fit(Recognizer(), loader, DataLoader(development, batch_size=20, collate_fn=collate), ckpt_path="last")
    return trainer


if __name__ == "__main__":
    for name, value in main().callback_metrics.items():
        print(f"{name}: {value:.3f}")
