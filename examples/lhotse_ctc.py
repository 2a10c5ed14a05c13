"""A complete training loop with lhotse and CTC-DRO: python examples/lhotse_ctc.py

Three synthetic languages, each with its own symbols and noise; the third is the noisiest. Cuts carry their symbols and
a seed, from which the dataset makes frames where a real one would load audio. The lines that CTC-DRO adds are marked.
The cuts are a stream; for an eager CutSet, use `LengthMatchedCutSampler(cuts, batch_duration=20.0)`.
"""

from collections.abc import Iterator

import numpy as np
import torch
from lhotse import CutSet, MonoCut, SupervisionSegment
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import ctcdro  # ctcdro
from ctcdro.integrations.lhotse import LengthMatchedStreamSampler, group_numbers  # ctcdro

LANGUAGES, NOISE, NUM_SYMBOLS, FRAMES_PER_SECOND = ["clear", "plain", "noisy"], [0.2, 0.5, 0.9], 8, 25
NUM_LABELS = 1 + NUM_SYMBOLS * len(LANGUAGES)


class MadeUpCuts:
    """A stream of cuts, the same in every iteration, instead of `CutSet.from_shar` or `CutSet.from_jsonl_lazy`."""

    def __init__(self, num_cuts: int) -> None:
        self.num_cuts = num_cuts

    def __iter__(self) -> Iterator[MonoCut]:
        for number in range(self.num_cuts):
            rng = np.random.default_rng(number)
            group = number % len(LANGUAGES)
            symbols = 1 + NUM_SYMBOLS * group + rng.integers(NUM_SYMBOLS, size=rng.integers(4, 20))
            repeats = rng.integers(3, 7, size=len(symbols))
            duration = float(repeats.sum() / FRAMES_PER_SECOND)
            yield MonoCut(
                id=f"cut-{number}",
                start=0.0,
                duration=duration,
                channel=0,
                supervisions=[SupervisionSegment(f"{number}", f"{number}", 0.0, duration, language=LANGUAGES[group])],
                custom={
                    "symbols": symbols.tolist(),
                    "repeats": repeats.tolist(),
                    "noise": NOISE[group],
                    "seed": number,
                },
            )


class SpeechDataset(Dataset):
    """Converts a CutSet to a padded batch."""

    def __getitem__(self, cuts: CutSet) -> dict[str, torch.Tensor]:
        frames = [self.frames_of(cut) for cut in cuts]
        targets = [torch.tensor(cut.symbols) for cut in cuts]
        return {
            "frames": pad_sequence(frames),
            "targets": pad_sequence(targets, batch_first=True),
            "num_frames": torch.tensor([len(each) for each in frames]),
            "num_targets": torch.tensor([len(each) for each in targets]),
            "groups": group_numbers(cuts, LANGUAGES),  # ctcdro
        }

    def frames_of(self, cut: MonoCut) -> torch.Tensor:
        rng = np.random.default_rng(cut.seed)
        spoken = np.repeat(cut.symbols, cut.repeats)
        noise = cut.noise * rng.standard_normal((len(spoken), NUM_LABELS))
        return torch.tensor(np.eye(NUM_LABELS)[spoken] + noise, dtype=torch.float32)


def main(num_epochs: int = 6) -> torch.Tensor:
    torch.manual_seed(0)
    cuts = CutSet(MadeUpCuts(900))
    sampler = LengthMatchedStreamSampler(cuts, LANGUAGES, batch_duration=20.0, buffer_size=300)  # ctcdro
    # With its own generator, a new iterator in the middle of an epoch does not change the dropout of later batches.
    loader = DataLoader(SpeechDataset(), sampler=sampler, batch_size=None, generator=torch.Generator())
    layers = torch.nn.Linear(NUM_LABELS, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, NUM_LABELS)
    model = torch.nn.Sequential(*layers)
    criterion = ctcdro.CTCDROLoss(len(LANGUAGES), step_size=1e-4, smoothing=0.5, group_names=LANGUAGES)  # ctcdro
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            log_probs = model(batch["frames"]).log_softmax(dim=-1)
            lengths = batch["num_frames"], batch["num_targets"]
            loss = criterion(log_probs, batch["targets"], *lengths, batch["groups"])  # ctcdro
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}, weights:", *(f"{n} {w:.3f}" for n, w in zip(LANGUAGES, criterion.weights, strict=True)))
    return criterion.weights


if __name__ == "__main__":
    main()
