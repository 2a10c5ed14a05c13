"""The data of the figures as plain numbers: weights over steps, CER of languages, confusions, lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..scoring.intervals import Interval, Uncertainty
from ..scoring.scores import NO_LANGUAGE
from .read_runs import WeightHistory
from .study import MethodRuns

MAX_POINTS = 500

Floats = npt.NDArray[np.float64]


def thin_out(weights: WeightHistory, max_points: int = MAX_POINTS) -> WeightHistory:
    """Keeps every n-th step, and the last, so that a figure has no more points than can be seen.

    Example:
        >>> thin_out(WeightHistory([1, 2, 3, 4, 5, 6], {"ces": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}), max_points=3)
        WeightHistory(steps=[1, 3, 5, 6], groups={'ces': [0.1, 0.3, 0.5, 0.6]})
    """
    last = len(weights.steps) - 1
    every = -(-len(weights.steps) // max_points) or 1
    kept = sorted({*range(0, len(weights.steps), every), last} - {-1})
    groups = {name: [values[place] for place in kept] for name, values in weights.groups.items()}
    return WeightHistory([weights.steps[place] for place in kept], groups)


@dataclass(frozen=True)
class CerBars:
    """The CER of each language for one method, in percent."""

    label: str
    languages: list[str]
    values: list[float]
    """Means over seeds."""
    below: list[float]
    """Reach of the interval below the value; empty for several seeds."""
    above: list[float]
    seeds: list[list[float]]
    """By language, the value of each seed; empty if no method has several."""


def cer_bars(intervals: Mapping[str, Uncertainty[Interval]], methods: Sequence[MethodRuns]) -> list[CerBars]:
    """Bars of methods with the same test data; languages in the order of the first method's CER, the worst first."""
    has_seeds = any(len(method.runs) > 1 for method in methods)
    bars = []
    order: list[str] = []
    for method in methods:
        means = {language: rate.mean for language, rate in method.rates("cer").items()}
        order = order or sorted(means, key=lambda name: -means[name])
        of_languages = intervals[method.first.name].languages
        limits = [] if has_seeds else [of_languages[language]["cer"] for language in order]
        bars.append(
            CerBars(
                method.name,
                order,
                [100 * means[language] for language in order],
                [100 * (rate.value - rate.low) for rate in limits],
                [100 * (rate.high - rate.value) for rate in limits],
                [[100 * run.scores.rates("cer")[name] for run in method.runs] for name in order] if has_seeds else [],
            )
        )
    return bars


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often which language was recognized."""

    spoken: list[str]
    named: list[str]
    counts: npt.NDArray[np.int64]
    """(spoken, named)"""

    @property
    def shares(self) -> Floats:
        """Shares of the utterances of each spoken language."""
        return self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)


def confusion_matrix(method: MethodRuns) -> ConfusionMatrix:
    """Confusions of all runs of a method, added up; hypotheses that name no language come last."""
    total: dict[str, Counter[str]] = {}
    for run in method.runs:
        for spoken, named in run.scores.confusion.items():
            total.setdefault(spoken, Counter()).update(named)
    others = {name for row in total.values() for name in row} - set(total)
    columns = [*total, *sorted(others - {NO_LANGUAGE}), *sorted(others & {NO_LANGUAGE})]
    counts = np.array([[row[name] for name in columns] for row in total.values()], dtype=np.int64)
    return ConfusionMatrix(list(total), columns, counts)


@dataclass(frozen=True)
class LengthHistograms:
    """A histogram of lengths for each group, the shortest mean first."""

    edges: Floats
    heights: dict[str, Floats]
    """From 0 to 1: counts over the highest; a bin that is not empty is high enough to be seen."""
    means: dict[str, float]


def length_histograms(durations: Mapping[str, Sequence[float] | Floats], num_bins: int = 50) -> LengthHistograms:
    """Histograms of lengths on one axis.

    Raises:
        ValueError: if there is no group, or one without utterances.

    Example:
        >>> found = length_histograms({"long": [9.0, 10.0], "short": [1.0]}, num_bins=2)
        >>> found.means, [round(height, 2) for height in found.heights["short"].tolist()]
        ({'short': 1.0, 'long': 9.5}, [1.0, 0.0])
    """
    if not durations or not all(len(seconds) for seconds in durations.values()):
        raise ValueError("`durations` must have a group, and each group an utterance.")
    longest = max(float(np.max(seconds)) for seconds in durations.values()) * 1.001
    edges = np.linspace(0.0, longest, num_bins + 1)
    means = {name: float(np.mean(seconds)) for name, seconds in durations.items()}
    heights = {}
    for name in sorted(durations, key=lambda group: means[group]):
        counts, _ = np.histogram(np.asarray(durations[name], dtype=np.float64), edges)
        # A single long utterance among thousands is still to be seen.
        heights[name] = np.where(counts > 0, np.maximum(counts / counts.max(), 0.07), 0.0)
    return LengthHistograms(edges, heights, {name: means[name] for name in heights})
