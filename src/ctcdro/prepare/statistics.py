"""Statistics of a dataset per language, and the typical duration of a text."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..speech.utterance import Utterance

# With fewer utterances, a single wrong one could distort the fit of `Pace`.
MIN_UTTERANCES_FOR_PACE = 20


@dataclass(frozen=True)
class Statistics:
    """Statistics of one language."""

    num_utterances: int
    hours: float
    duration_mean: float
    duration_deviation: float
    characters_mean: float
    characters_deviation: float
    characters_per_second: float
    """All characters over all seconds."""

    @classmethod
    def of(cls, durations: npt.ArrayLike, num_characters: npt.ArrayLike) -> Statistics:
        seconds, characters = np.asarray(durations, np.float64), np.asarray(num_characters, np.float64)
        return cls(
            num_utterances=len(seconds),
            hours=float(seconds.sum() / 3600),
            duration_mean=float(seconds.mean()),
            duration_deviation=float(seconds.std()),
            characters_mean=float(characters.mean()),
            characters_deviation=float(characters.std()),
            characters_per_second=float(characters.mean() / seconds.mean()),
        )

    @classmethod
    def from_sums(cls, num: int, seconds: float, squares: float, characters: int, character_squares: int) -> Statistics:
        """From the sums, and the sums of squares, of seconds and characters."""

        def deviation(total: float, squares: float) -> float:
            return max(0.0, squares / num - (total / num) ** 2) ** 0.5

        return cls(
            num_utterances=num,
            hours=seconds / 3600,
            duration_mean=seconds / num,
            duration_deviation=deviation(seconds, squares),
            characters_mean=characters / num,
            characters_deviation=deviation(characters, character_squares),
            characters_per_second=characters / seconds,
        )


class Pace(NamedTuple):
    """The typical duration of a text in a language: `base` seconds, plus `per_character` seconds per character.

    Short utterances have fewer characters per second than long ones, because of silence at both ends, so a single rate
    would not fit.
    """

    base: float
    per_character: float

    @classmethod
    def fit(cls, num_characters: npt.ArrayLike, seconds: npt.ArrayLike) -> Pace | None:
        """Fits Tukey's resistant line, through the medians of the shortest and of the longest third of the texts.

        It tolerates wrong durations or texts in up to one sixth of the utterances. Returns None for fewer than
        `MIN_UTTERANCES_FOR_PACE` utterances with text.
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
        return self.base + self.per_character * num_characters


class LanguageSizes:
    """Seconds and characters of each utterance, by language; 16 bytes per utterance."""

    def __init__(self) -> None:
        self.durations: dict[str, array[float]] = defaultdict(lambda: array("d"))
        self.num_characters: dict[str, array[int]] = defaultdict(lambda: array("q"))

    def __bool__(self) -> bool:
        return bool(self.durations)

    def add(self, utterance: Utterance) -> None:
        self.durations[utterance.lang].append(utterance.duration)
        self.num_characters[utterance.lang].append(len(utterance.text))

    def statistics(self) -> dict[str, Statistics]:
        """By language, sorted."""
        return {
            language: Statistics.of(durations, self.num_characters[language])
            for language, durations in sorted(self.durations.items())
        }


def statistics_by_language(utterances: Iterable[Utterance]) -> dict[str, Statistics]:
    """The statistics of each language, sorted by language."""
    sizes = LanguageSizes()
    for utterance in utterances:
        sizes.add(utterance)
    return sizes.statistics()
