"""A fixed sample of the training data, which the selected model decodes for the diagnosis."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..prepare.statistics import Statistics, statistics_by_language
from ..speech.dataset import UtteranceDataset
from ..speech.manifest import Groups, Manifest


@dataclass(frozen=True)
class TrainingSample:
    """A sample of the training data, and statistics of all of it."""

    manifest: Manifest
    dataset: UtteranceDataset
    statistics: dict[str, Statistics]
    """By language."""
    languages: dict[str, str]
    """The language of each group; empty if a group has several."""


def sample_places(num_utterances: Mapping[str, int], dev: Manifest) -> dict[str, list[int]]:
    """Draws as many training utterances per language as dev has: the same for every run on these data.

    Args:
        num_utterances: training utterances of each language.

    Returns:
        Places of the chosen utterances among those of their language.
    """
    num_dev = Counter(utterance.lang for utterance in dev)
    typical = math.ceil(statistics.median(num_dev.values()))  # for languages without development data
    return {
        language: np.random.default_rng(list(language.encode()))
        .choice(number, min(number, num_dev[language] or typical), replace=False)
        .tolist()
        for language, number in num_utterances.items()
    }


def sample_indices(train: Manifest, dev: Manifest) -> list[int]:
    indices: dict[str, list[int]] = {}
    for index, utterance in enumerate(train):
        indices.setdefault(utterance.lang, []).append(index)
    places = sample_places({language: len(own) for language, own in indices.items()}, dev)
    return sorted(indices[language][place] for language, own in places.items() for place in own)


def sample_training_data(
    train: Manifest, dev: Manifest, groups: Groups, make_dataset: Callable[..., UtteranceDataset]
) -> TrainingSample:
    manifest = train.select(sample_indices(train, dev))
    # A file that cannot be read, and that training never used, must not prevent the end of the run.
    dataset = make_dataset(manifest, on_bad_audio="skip")
    pairs = {(groups.names[number], one.lang) for number, one in zip(groups.numbers, train, strict=True)}
    languages = dict(pairs) if len(pairs) == len(groups.names) else {}
    return TrainingSample(manifest, dataset, statistics_by_language(train), languages)
