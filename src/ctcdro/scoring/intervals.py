"""Confidence intervals of error rates over the choice of test utterances.

`estimates` has the mathematics, `comparisons` the differences between two systems. The intervals do not include
variation between training runs: for that, train with several seeds and use `seeds`. The worst observed language is the
worst partly by chance; see `highest`. Intervals are deterministic. `benchmarks/interval_coverage.py` simulates how
often they contain the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .distributions import normal_quantile
from .estimates import Estimate, estimate_rates
from .scores import Counts

CONFIDENCE = 0.95
SCREENING_LEVEL = 0.05
"""A language may be the worst unless a test at this level, divided by the number of languages, finds it better."""


@dataclass(frozen=True, slots=True)
class Interval:
    value: float
    low: float
    high: float


Range = TypeVar("Range", bound=Interval)


@dataclass(frozen=True)
class Uncertainty(Generic[Range]):
    """Intervals of the rates of one system, or of the differences between two systems."""

    confidence: float
    summary: dict[str, Range]
    """By names of `Scores.summary`: the worst, best and mean over languages, and all utterances, of each rate."""
    languages: dict[str, dict[str, Range]]
    """By language and rate."""


def confidence_intervals(counts: Counts) -> Uncertainty[Interval]:
    """Computes 95% confidence intervals of the rates of a system.

    The interval of the worst rate is that of the highest true rate of any language, whichever language has it.

    Example:
        >>> from ctcdro.scoring.scores import count
        >>> from ctcdro.scoring.transcripts import Prediction
        >>> texts = ["ahoj", "aho", "ah", "ahoj"] * 25
        >>> counts = count(Prediction(str(n), "ces", "ahoj", "ces", text) for n, text in enumerate(texts))
        >>> cer = confidence_intervals(counts).languages["ces"]["cer"]
        >>> cer.value, round(cer.low, 3), round(cer.high, 3)
        (0.1875, 0.147, 0.231)
    """
    tail = (1 - CONFIDENCE) / 2
    summary: dict[str, Interval] = {}
    languages: dict[str, dict[str, Interval]] = {name: {} for name in counts.languages}
    for name, rate in estimate_rates([counts]):
        for language, *limits in zip(rate.languages, rate.each.value, *rate.each.limits(tail), strict=True):
            languages[language][name] = _within_bounds(name, *limits)
        for figure, sign in directions(name).items():
            low, high = sorted(sign * limit for limit in highest(rate.each * sign))
            summary[f"{figure}_{name}"] = _within_bounds(name, sign * (sign * rate.each.value).max(), low, high)
        for figure, estimate in (("mean", rate.mean), ("overall", rate.overall)):
            summary[f"{figure}_{name}"] = _within_bounds(name, estimate.value, *estimate.limits(tail))
    return Uncertainty(CONFIDENCE, summary, languages)


def directions(rate: str) -> dict[str, int]:
    """The signs that turn the worst rate, and the best rate, into the highest."""
    return {"worst": -1, "best": 1} if rate == "lid" else {"worst": 1, "best": -1}


def _within_bounds(rate: str, value: Any, low: Any, high: Any) -> Interval:
    return Interval(float(value), max(0.0, float(low)), min(1.0 if rate == "lid" else math.inf, float(high)))


def highest(estimates: Estimate) -> tuple[float, float]:
    """Limits of the highest true rate of any language.

    The upper limit is the highest upper limit of any language; it is too low only if that of the true worst language
    is. The lower limit is the highest lower limit of any candidate. Each candidate may raise it above the truth, so the
    candidates share the total error of both limits. With several candidates of similar rates, the upper limit is hardly
    ever too low; with one candidate, each limit gets half of the error.
    """
    possible = candidates(estimates)
    tail = tail_per_candidate(int(possible.sum()))
    return float(estimates[possible].limits(tail)[0].max()), float(estimates.limits((1 - CONFIDENCE) / 2)[1].max())


def candidates(estimates: Estimate) -> npt.NDArray[np.bool_]:
    """Mask of the languages that may have the highest true rate."""
    number = len(estimates.value)
    top = int(np.argmax(estimates.center))
    reach = normal_quantile(1 - SCREENING_LEVEL / number) if number > 1 else 0.0
    behind = estimates.center[top] - estimates.center
    return behind <= reach * np.sqrt(estimates.variance + estimates.variance[top])


def tail_per_candidate(number: int) -> float:
    """The error of one limit per candidate: half of the total for a single one, otherwise an equal share."""
    return (1 - CONFIDENCE) / 2 if number == 1 else 1 - CONFIDENCE ** (1 / number)
