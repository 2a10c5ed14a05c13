"""A corpus of three synthetic languages, a small model, and the plain loops that the toolkits are compared with.

An utterance is a row of symbols, each spoken for a few frames. The languages differ in length, in symbols and in noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import ctcdro

LANGUAGES = ("clear", "plain", "noisy")
NOISE = (0.2, 0.5, 0.9)
SYMBOLS_PER_UTTERANCE = ((3, 8), (4, 14), (8, 20))
NUM_SYMBOLS = 6  # of each language
NUM_LABELS = 1 + NUM_SYMBOLS * len(LANGUAGES)
FRAMES_PER_SECOND = 25
BATCH_DURATION = 12.0  # seconds
STEP_SIZE, SMOOTHING = 1e-3, 0.5
LEARNING_RATE = 1e-2


@dataclass(frozen=True)
class Spoken:
    """An utterance."""

    frames: Tensor  # (T, NUM_LABELS)
    labels: Tensor  # (S,)
    group: int

    @property
    def duration(self) -> float:
        return len(self.frames) / FRAMES_PER_SECOND


class Toy(Dataset):
    """The corpus; the same seed gives the same."""

    def __init__(self, num_utterances: int = 240, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.utterances = []
        for number in range(num_utterances):
            group = number % len(LANGUAGES)
            num_symbols = rng.integers(*SYMBOLS_PER_UTTERANCE[group])
            labels = 1 + NUM_SYMBOLS * group + rng.integers(NUM_SYMBOLS, size=num_symbols)
            spoken = np.repeat(labels, rng.integers(3, 7, size=num_symbols))
            frames = np.eye(NUM_LABELS)[spoken] + NOISE[group] * rng.standard_normal((len(spoken), NUM_LABELS))
            self.utterances.append(Spoken(torch.tensor(frames, dtype=torch.float32), torch.tensor(labels), group))

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Spoken:
        return self.utterances[index]

    @property
    def durations(self) -> list[float]:
        return [utterance.duration for utterance in self.utterances]

    @property
    def groups(self) -> list[int]:
        return [utterance.group for utterance in self.utterances]

    def sampler(self, **options) -> ctcdro.LengthMatchedBatchSampler:
        return ctcdro.LengthMatchedBatchSampler(self.durations, self.groups, BATCH_DURATION, **options)

    def adaptive_sampler(self, criterion: ctcdro.ObjectiveCTCLoss, **options) -> ctcdro.AdaptiveBatchSampler:
        return ctcdro.AdaptiveBatchSampler(self.durations, self.groups, criterion.objective, BATCH_DURATION, **options)


@dataclass
class Batch:
    frames: Tensor  # (B, T, NUM_LABELS)
    labels: Tensor  # (B, S)
    num_frames: Tensor  # (B,)
    num_labels: Tensor  # (B,)
    groups: Tensor  # (B,)


def collate(utterances: list[Spoken]) -> Batch:
    return Batch(
        frames=pad_sequence([each.frames for each in utterances], batch_first=True),
        labels=pad_sequence([each.labels for each in utterances], batch_first=True),
        num_frames=torch.tensor([len(each.frames) for each in utterances]),
        num_labels=torch.tensor([len(each.labels) for each in utterances]),
        groups=torch.tensor([each.group for each in utterances]),
    )


def make_model(seed: int = 0, dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(NUM_LABELS, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, NUM_LABELS))


def make_random_model() -> nn.Module:
    """The model with dropout and masks: in training it draws from the generators of torch, numpy and Python."""
    return nn.Sequential(Masked(), *make_model(dropout=0.1))


class Masked(nn.Module):
    """Hides frames in training, drawn by numpy as in transformers, and a feature, drawn by Python."""

    def forward(self, frames: Tensor) -> Tensor:
        if not self.training:
            return frames
        masked = np.random.random(frames.shape[:2]) < 0.1  # noqa: NPY002
        hidden = torch.from_numpy(masked)[:, :, None].repeat(1, 1, NUM_LABELS)
        hidden[:, :, random.randrange(NUM_LABELS)] = True
        return frames.masked_fill(hidden, 0.0)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def make_criterion(**options) -> ctcdro.CTCDROLoss:
    return ctcdro.CTCDROLoss(len(LANGUAGES), STEP_SIZE, SMOOTHING, group_names=LANGUAGES, **options)


def make_error_weighted(**options) -> ctcdro.ObjectiveCTCLoss:
    return ctcdro.ObjectiveCTCLoss(ctcdro.error_weighted(len(LANGUAGES), group_names=LANGUAGES, **options))


def batch_loss(model: nn.Module, criterion: ctcdro.ObjectiveCTCLoss, batch: Batch) -> Tensor:
    log_probs = model(batch.frames).log_softmax(-1).transpose(0, 1)
    return criterion(log_probs, batch.labels, batch.num_frames, batch.num_labels, batch.groups)


def plain_loop(num_epochs: int = 2, criterion: ctcdro.CTCDROLoss | None = None, **options) -> Tensor:
    """(batches, G): the weights after each batch of the plain loop; `options` are the sampler's."""
    corpus, model, criterion = Toy(), make_model(), criterion or make_criterion()
    sampler = corpus.sampler(**options)
    loader = DataLoader(corpus, batch_sampler=sampler, collate_fn=collate)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    weights = []
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            batch_loss(model, criterion, batch).backward()
            optimizer.step()
            weights.append(criterion.weights.clone())
    return torch.stack(weights)


def adaptive_loop(
    criterion: ctcdro.ObjectiveCTCLoss,
    num_epochs: int = 2,
    first_epoch: int = 0,
    after_epoch: Callable[[nn.Module], None] = lambda model: None,
) -> tuple[list[list[int]], Tensor]:
    """The batches of the plain loop with an adaptive sampler, and (batches, G) the weights after each batch."""
    corpus, model = Toy(), make_model()
    sampler = corpus.adaptive_sampler(criterion)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    batches, weights = [], []
    for epoch in range(first_epoch, first_epoch + num_epochs):
        sampler.set_epoch(epoch)
        for numbers in sampler:
            optimizer.zero_grad()
            batch_loss(model, criterion, collate([corpus[number] for number in numbers])).backward()
            optimizer.step()
            batches.append(numbers)
            weights.append(criterion.weights.clone())
        after_epoch(model)
    return batches, torch.stack(weights)


def use_error_weighted(monkeypatch: Any, example: ModuleType) -> None:
    """Makes the loop of an example create an error-weighted criterion and its adaptive sampler, and nothing else."""
    created = []

    def make_sampler(durations: list[float], groups: list[int], batch_duration: float) -> ctcdro.AdaptiveBatchSampler:
        created.append(make_error_weighted())
        return ctcdro.AdaptiveBatchSampler(durations, groups, created[-1].objective, batch_duration)

    changed = SimpleNamespace(LengthMatchedBatchSampler=make_sampler, CTCDROLoss=lambda *_, **__: created[-1])
    monkeypatch.setattr(example, "ctcdro", changed)


def assert_shares_follow_weights(batches: list[list[int]], weights: Tensor) -> None:
    assert np.ptp(weights[-1].numpy()) > 0.02
    groups = Toy().groups
    shares = np.bincount([groups[batch[0]] for batch in batches]) / len(batches)
    before = torch.cat([torch.full((1, len(LANGUAGES)), 1 / len(LANGUAGES)), weights[:-1]])
    np.testing.assert_allclose(shares, before.mean(0), atol=4 / len(batches))
    assert np.ptp(shares) > 0.01


def error_rates(model: nn.Module, corpus: Toy) -> dict[str, float]:
    """The share of symbols of each language that are decoded wrongly: rough, but it depends on the model."""
    errors, totals = dict.fromkeys(LANGUAGES, 0), dict.fromkeys(LANGUAGES, 0)
    with torch.no_grad():
        for spoken in corpus:
            decoded = torch.unique_consecutive(model(spoken.frames).argmax(-1))
            num_right = len(set(decoded.tolist()) & set(spoken.labels.tolist()))
            errors[LANGUAGES[spoken.group]] += len(set(spoken.labels.tolist())) - num_right
            totals[LANGUAGES[spoken.group]] += len(set(spoken.labels.tolist()))
    return {name: errors[name] / totals[name] for name in LANGUAGES}


def loop_of_two(num_epochs: int = 2, first_epoch: int = 0, **options) -> Tensor:
    """(turns, G): the weights after each turn of two processes, as one process works them out.

    Both batches of a turn enter before the update, both count with the new weights, and gradients are averaged.
    """
    corpus, model = Toy(), make_model()
    sampler = corpus.sampler(**options)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    num_groups = len(LANGUAGES)
    weights, waiting, history = torch.full((num_groups,), 1 / num_groups), [[] for _ in LANGUAGES], []
    for epoch in range(first_epoch, first_epoch + num_epochs):
        plan = list(sampler.plan(epoch))
        plan += plan[: len(plan) % 2]  # the last turn is filled by starting over
        for turn in zip(plan[::2], plan[1::2], strict=True):
            sums = []
            for indices in turn:
                batch = collate([corpus[index] for index in indices])
                log_probs = model(batch.frames).log_softmax(-1).transpose(0, 1)
                losses = ctcdro.ctc_losses(log_probs, batch.labels, batch.num_frames, batch.num_labels)
                sums.append((int(batch.groups[0]), losses.sum()))
                waiting[sums[-1][0]].append(sums[-1][1].item())
            if all(waiting):
                means = torch.tensor([sum(of_group) / len(of_group) for of_group in waiting])
                weights = ctcdro.smoothed_update(weights, means, step_size=STEP_SIZE, smoothing=SMOOTHING)
                waiting = [[] for _ in LANGUAGES]
            history.append(weights)
            optimizer.zero_grad()
            (sum(num_groups * weights[group] * total for group, total in sums) / 2).backward()
            optimizer.step()
    return torch.stack(history)
