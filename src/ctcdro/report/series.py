"""What the figures show, as plain numbers: one home for the page's figures and for those that go into a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..metrics import NO_LANGUAGE
from .comparing import Method, Study
from .reading import RunResult, Weights
from .tables import Intervals, total_confusion

MOST_POINTS = 500
MOST_BARS = 8
"""Runs in the bars of a language; of more, the first run of each method is shown."""

COLOURS = ("#3b8fd6", "#e07b00", "#1a9e77", "#c65aa0", "#d1495b", "#8a7d00", "#6a6fd1", "#5b8a8a")
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
    """The CER of each language for one run, in per cent, with the reach of its interval to either side."""

    label: str
    method: int
    """The place of the run's method among those shown, for its colour."""
    languages: list[str]
    values: list[float]
    below: list[float]
    above: list[float]


def shown_runs(methods: Sequence[Method]) -> list[tuple[int, RunResult]]:
    """Runs, each with the place of its method; few enough to be told apart."""
    runs = [(place, run) for place, method in enumerate(methods) for run in method.runs]
    return runs if len(runs) <= MOST_BARS else [(place, method.first) for place, method in enumerate(methods)]


def cer_bars(study: Study, intervals: Intervals, methods: Sequence[Method]) -> list[Bars]:
    """Bars of runs with the same test data; languages in the order of the first run's CER, the worst first."""
    found = []
    order: list[str] = []
    for place, run in shown_runs(methods):
        rates = {language: own["cer"] for language, own in intervals[run.name].languages.items() if "cer" in own}
        order = order or sorted(rates, key=lambda name: -rates[name].value)
        chosen = [rates[language] for language in order]
        found.append(
            Bars(
                study.label(run),
                place,
                order,
                [100 * one.value for one in chosen],
                [100 * max(0.0, one.value - one.low) for one in chosen],
                [100 * max(0.0, one.high - one.value) for one in chosen],
            )
        )
    return found


@dataclass(frozen=True)
class Confusion:
    """How often which language was recognised."""

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
