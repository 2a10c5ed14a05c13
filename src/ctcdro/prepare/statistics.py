"""Contents of a dataset per language: the paper's table of datasets, and the typical duration of a text."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..speech.utterance import Utterance

# Utterances of which the sizes are kept, before their means and squares are added to those of others.
UTTERANCES_AT_A_TIME = 1024

# With fewer utterances, a single wrong one could distort the line of `Pace`.
MIN_UTTERANCES_FOR_PACE = 20

# Utterances per language that its pace is estimated from; medians of more differ by a few percent.
MOST_FOR_PACE = 2048


@dataclass(frozen=True)
class Statistics:
    """The utterances of one language: number, hours, mean ± standard deviation of seconds and characters, and
    characters per second of all its audio."""

    num_utterances: int
    hours: float
    duration_mean: float
    duration_deviation: float
    characters_mean: float
    characters_deviation: float
    characters_per_second: float

    @classmethod
    def of(cls, utterances: Iterable[Utterance]) -> Statistics:
        """Counts.

        Example:
            >>> Statistics.of([Utterance("a.wav", 3.0, "ahoj", "ces"), Utterance("b.wav", 5.0, "dobrý den", "ces")])
            Statistics(num_utterances=2, hours=0.0022..., duration_mean=4.0, duration_deviation=1.0,
                       characters_mean=6.5, characters_deviation=2.5, characters_per_second=1.625)
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
            characters_per_second=means[1] / means[0],
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


class Pace(NamedTuple):
    """The duration of texts in a language: `base` seconds, plus `per_character` for each character.

    Short utterances have fewer characters per second than long ones, because of the silence around the speech, so a
    single rate would not fit.
    """

    base: float
    per_character: float

    @classmethod
    def fit(cls, num_characters: npt.ArrayLike, seconds: npt.ArrayLike) -> Pace | None:
        """Tukey's resistant line: through the medians of the shortest and of the longest third of the texts.

        Wrong durations or texts do not affect it if they are fewer than one in six.

        Returns:
            None if there are fewer than `MIN_UTTERANCES_FOR_PACE` utterances with text.

        Example:
            >>> Pace.fit([10] * 10 + [20] * 10, [1.5] * 10 + [2.5] * 10)
            Pace(base=0.5, per_character=0.1)
        """
        x, y = np.asarray(num_characters, np.float64), np.asarray(seconds, np.float64)
        x, y = x[x > 0], y[x > 0]
        if len(x) < MIN_UTTERANCES_FOR_PACE:
            return None
        order, third = np.argsort(x, kind="stable"), len(x) // 3
        (x_short, y_short), (x_long, y_long) = (
            (np.median(x[part]), np.median(y[part])) for part in (order[:third], order[-third:])
        )
        if x_long == x_short:  # texts of one length
            return cls(0.0, float(np.median(y / x)))
        slope = (y_long - y_short) / (x_long - x_short)
        if slope <= 0:  # durations that do not depend on the text, such as clips cut to one length
            return cls(float(np.median(y)), 0.0)
        return cls(max(0.0, float(np.median(y - slope * x))), float(slope))

    def seconds(self, num_characters: int) -> float:
        """A typical duration of a text."""
        return self.base + self.per_character * num_characters


class PaceSample:
    """Keeps every n-th added utterance, where n is the smallest power of two that keeps few enough."""

    def __init__(self) -> None:
        self._sizes = array("d")  # characters and seconds in turn
        self._num_added = 0
        self._stride = 1

    def add(self, utterance: Utterance) -> None:
        """Keeps the utterance if it is an n-th one."""
        if self._num_added % self._stride == 0:
            self._sizes.extend((len(utterance.text), utterance.duration))
            if len(self._sizes) > 2 * MOST_FOR_PACE:
                self._sizes = array("d", np.array(self._sizes).reshape(-1, 2)[::2].ravel())
                self._stride *= 2
        self._num_added += 1

    def pace(self) -> Pace | None:
        """The pace of the utterances that were kept."""
        return Pace.fit(self._sizes[::2], self._sizes[1::2])


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
