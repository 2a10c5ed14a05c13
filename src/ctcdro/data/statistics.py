"""What is in a dataset, by language: the paper's table of datasets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..utterance import Utterance


@dataclass(frozen=True)
class Statistics:
    """Of the utterances of one language: number, hours, and mean ± standard deviation of seconds and characters."""

    num_utterances: int
    hours: float
    duration_mean: float
    duration_deviation: float
    characters_mean: float
    characters_deviation: float

    @classmethod
    def of(cls, utterances: Iterable[Utterance]) -> Statistics:
        """Counts.

        Example:
            >>> Statistics.of([Utterance("a.wav", 3.0, "ahoj", "ces"), Utterance("b.wav", 5.0, "dobrý den", "ces")])
            Statistics(num_utterances=2, hours=0.0022..., duration_mean=4.0, duration_deviation=1.0,
                       characters_mean=6.5, characters_deviation=2.5)
        """
        sizes = np.array([(utterance.duration, len(utterance.text)) for utterance in utterances]).reshape(-1, 2)
        if not len(sizes):
            raise ValueError("`utterances` must not be empty.")
        means, deviations = sizes.mean(0).tolist(), sizes.std(0).tolist()
        return cls(
            num_utterances=len(sizes),
            hours=float(sizes[:, 0].sum()) / 3600,
            duration_mean=means[0],
            duration_deviation=deviations[0],
            characters_mean=means[1],
            characters_deviation=deviations[1],
        )


def by_language(utterances: Iterable[Utterance]) -> dict[str, Statistics]:
    """The statistics of each language, in the order of their codes.

    Example:
        >>> by_language([Utterance("a.wav", 3.0, "ahoj", "ces"), Utterance("b.wav", 4.0, "hej", "swe")])["swe"].hours
        0.0011...
    """
    found = defaultdict(list)
    for utterance in utterances:
        found[utterance.lang].append(utterance)
    return {language: Statistics.of(found[language]) for language in sorted(found)}
