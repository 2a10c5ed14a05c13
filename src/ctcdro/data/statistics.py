"""What is in a dataset, by language: the paper's table of datasets."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..utterance import Utterance

# Utterances of which the sizes are kept, before their means and squares are added to those of others.
UTTERANCES_AT_A_TIME = 1024


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
        totals = Totals()
        for utterance in utterances:
            totals.add(utterance)
        return totals.statistics()


class Totals:
    """What the statistics of one language are made of, in memory that does not grow with its utterances.

    Example:
        >>> totals = Totals()
        >>> totals.add(Utterance("a.wav", 3.0, "ahoj", "ces"))
        >>> totals.statistics().characters_mean
        4.0
    """

    def __init__(self) -> None:
        self._sizes = array("d")  # seconds and characters in turn
        self._num_utterances = 0
        self._seconds = 0.0
        self._means = np.zeros(2)
        self._squares = np.zeros(2)
        """Sums of squared distances from the means."""

    def add(self, utterance: Utterance) -> None:
        """Counts an utterance."""
        self._sizes.append(utterance.duration)
        self._sizes.append(len(utterance.text))
        if len(self._sizes) == 2 * UTTERANCES_AT_A_TIME:
            self._merge()

    def _merge(self) -> None:
        """Adds the sizes to what was counted before, by the formula of Chan, Golub and LeVeque."""
        sizes = np.array(self._sizes).reshape(-1, 2)
        self._sizes = array("d")
        before, new = self._num_utterances, len(sizes)
        means = sizes.mean(0)
        apart = means - self._means
        self._num_utterances += new
        self._seconds += float(sizes[:, 0].sum())
        self._squares += ((sizes - means) ** 2).sum(0) + apart**2 * (before * new / self._num_utterances)
        self._means = self._means + apart * (new / self._num_utterances) if before else means

    def statistics(self) -> Statistics:
        """What was counted so far.

        Raises:
            ValueError: if there is nothing.
        """
        if self._sizes:
            self._merge()
        if not self._num_utterances:
            raise ValueError("`utterances` must not be empty.")
        means = self._means.tolist()
        deviations = np.sqrt(self._squares / self._num_utterances).tolist()
        return Statistics(
            num_utterances=self._num_utterances,
            hours=self._seconds / 3600,
            duration_mean=means[0],
            duration_deviation=deviations[0],
            characters_mean=means[1],
            characters_deviation=deviations[1],
        )


class LanguageTotals:
    """The same for each language of a split.

    Example:
        >>> totals = LanguageTotals()
        >>> totals.add(Utterance("a.wav", 3.0, "ahoj", "ces"))
        >>> list(totals.statistics())
        ['ces']
    """

    def __init__(self) -> None:
        self._totals: dict[str, Totals] = defaultdict(Totals)

    def __bool__(self) -> bool:
        """Whether there are utterances."""
        return bool(self._totals)

    def add(self, utterance: Utterance) -> None:
        """Counts an utterance."""
        self._totals[utterance.lang].add(utterance)

    def statistics(self) -> dict[str, Statistics]:
        """The statistics of each language, in the order of their codes."""
        return {language: self._totals[language].statistics() for language in sorted(self._totals)}


def by_language(utterances: Iterable[Utterance]) -> dict[str, Statistics]:
    """The statistics of each language, in the order of their codes.

    Example:
        >>> by_language([Utterance("a.wav", 3.0, "ahoj", "ces"), Utterance("b.wav", 4.0, "hej", "swe")])["swe"].hours
        0.0011...
    """
    totals = LanguageTotals()
    for utterance in utterances:
        totals.add(utterance)
    return totals.statistics()
