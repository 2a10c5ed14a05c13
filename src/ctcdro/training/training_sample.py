"""A fixed sample of the training data, which the selected model decodes for the diagnosis."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..prepare.statistics import Statistics, statistics_by_language
from ..speech.dataset import SpeechDataset
from ..speech.manifest import Groups, Manifest


@dataclass(frozen=True)
class TrainingSample:
    """A sample of the training data, and statistics of all of it."""

    manifest: Manifest
    dataset: SpeechDataset
    statistics: dict[str, Statistics]
    """By language."""
    languages: dict[str, str]
    """The language of each group; empty if a group has several."""


def sample_indices(train: Manifest, dev: Manifest) -> list[int]:
    """Draws as many training utterances per language as dev has: the same for every run on these data."""
    indices: dict[str, list[int]] = {}
    for index, utterance in enumerate(train):
        indices.setdefault(utterance.lang, []).append(index)
    num_dev = Counter(utterance.lang for utterance in dev)
    typical = math.ceil(statistics.median(num_dev.values()))  # for languages without development data
    chosen: list[int] = []
    for language, own in indices.items():
        rng = np.random.default_rng(list(language.encode()))
        chosen += rng.choice(own, min(len(own), num_dev[language] or typical), replace=False).tolist()
    return sorted(chosen)


def sample_training_data(
    train: Manifest, dev: Manifest, groups: Groups, make_dataset: Callable[..., SpeechDataset]
) -> TrainingSample:
    manifest = train.select(sample_indices(train, dev))
    # A file that cannot be read, and that training never used, must not prevent the end of the run.
    dataset = make_dataset(manifest, on_bad_audio="skip")
    pairs = {(groups.names[number], one.lang) for number, one in zip(groups.numbers, train, strict=True)}
    languages = dict(pairs) if len(pairs) == len(groups.names) else {}
    return TrainingSample(manifest, dataset, statistics_by_language(train), languages)
