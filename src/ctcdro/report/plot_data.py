"""What the figures show, as plain numbers: one home for the page's figures and for those that go into a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..scoring.scores import NO_LANGUAGE
from .read_runs import Weights
from .study import Method
from .tables import Intervals, total_confusion

MOST_POINTS = 500

COLORS = ("#3b8fd6", "#e07b00", "#1a9e77", "#c65aa0", "#d1495b", "#8a7d00", "#6a6fd1", "#5b8a8a")
"""Told apart by most eyes, on white and on black."""

Floats = npt.NDArray[np.float64]


def thinned(weights: Weights, most: int = MOST_POINTS) -> Weights:
    """Every n-th step, and the last, so that a figure has no more points than can be seen.

    Example:
        >>> thinned(Weights([1, 2, 3, 4, 5, 6], {"ces": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}), most=3)
        Weights(steps=[1, 3, 5, 6], groups={'ces': [0.1, 0.3, 0.5, 0.6]})
    """
    every = -(-len(weights.steps) // most) or 1
    kept = list(range(0, len(weights.steps), every))
    if kept and kept[-1] != len(weights.steps) - 1:
        kept.append(len(weights.steps) - 1)
    return Weights(
        [weights.steps[place] for place in kept],
        {name: [own[place] for place in kept] for name, own in weights.groups.items()},
    )


@dataclass(frozen=True)
class Bars:
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


def cer_bars(intervals: Intervals, methods: Sequence[Method]) -> list[Bars]:
    """Bars of methods with the same test data; languages in the order of the first method's CER, the worst first."""
    has_seeds = any(len(method.runs) > 1 for method in methods)
    found = []
    order: list[str] = []
    for method in methods:
        means = {language: one.mean for language, one in method.rates("cer").items()}
        order = order or sorted(means, key=lambda name: -means[name])
        own = intervals[method.first.name].languages
        reaches = [] if has_seeds else [own[language]["cer"] for language in order]
        found.append(
            Bars(
                method.name,
                order,
                [100 * means[language] for language in order],
                [100 * (one.value - one.low) for one in reaches],
                [100 * (one.high - one.value) for one in reaches],
                [[100 * run.scores.rates("cer")[name] for run in method.runs] for name in order] if has_seeds else [],
            )
        )
    return found


@dataclass(frozen=True)
class Confusion:
    """How often which language was recognized."""

    said: list[str]
    named: list[str]
    counts: npt.NDArray[np.int64]
    """(said, named)"""

    @property
    def shares(self) -> Floats:
        """Of the utterances of each language."""
        return self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)


def confusion(method: Method) -> Confusion:
    """Confusions over all runs of a method; what names no language comes last."""
    found = total_confusion(method)
    others = {name for own in found.values() for name in own} - set(found)
    named = [*found, *sorted(others - {NO_LANGUAGE}), *sorted(others & {NO_LANGUAGE})]
    counts = np.array([[own.get(name, 0) for name in named] for own in found.values()], dtype=np.int64)
    return Confusion(list(found), named, counts)
