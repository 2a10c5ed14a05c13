"""Variation between training runs: mean and standard deviation over seeds, and paired t-tests."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .distributions import student_cdf, student_quantile
from .intervals import CONFIDENCE, Interval
from .scores import Scores


@dataclass(frozen=True, slots=True)
class RunMean:
    mean: float
    deviation: float | None
    """Standard deviation (over n - 1); None for a single run."""
    num_runs: int


def mean_over_runs(values: Sequence[float | None]) -> RunMean | None:
    """The mean and standard deviation of a figure; None unless all runs have it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return RunMean(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def over_runs(runs: Sequence[Scores]) -> dict[str, RunMean]:
    """The mean and standard deviation of each figure of `Scores.summary` that all runs have."""
    profiles = sorted({run.profile for run in runs})
    if len(profiles) != 1:
        raise ValueError(f"`runs` must share one scoring profile; got {', '.join(profiles) or 'no runs'}.")
    summaries = [run.summary() for run in runs]
    means = {name: mean_over_runs([summary[name] for summary in summaries]) for name in summaries[0]}
    return {name: mean for name, mean in means.items() if mean is not None}


@dataclass(frozen=True, slots=True)
class TTest(Interval):
    """A paired t-test: the mean of second minus first, its interval, t, and the two-sided p-value."""

    t: float | None
    """None if all differences are equal and not zero."""
    degrees: int
    p_value: float


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> TTest:
    """Tests whether the mean difference of pairs (of languages, or of runs with the same seed) could be due to chance.

    Example:
        >>> test = paired_t_test([0.61, 0.64, 0.60, 0.63], [0.52, 0.57, 0.54, 0.55])
        >>> round(test.value, 3), f"{test.t:.2f}", test.degrees, round(test.p_value, 4)
        (-0.075, '-11.62', 3, 0.0014)
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"`first` and `second` must have two or more pairs; got {len(first)} and {len(second)} values."
        )
    differences = [after - before for before, after in zip(first, second, strict=True)]
    degrees = len(differences) - 1
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    error = 0.0 if error < 1e-12 else error  # equal differences, up to rounding
    reach = error * float(student_quantile(degrees, (1 + CONFIDENCE) / 2))
    t = mean / error if error else None if mean else 0.0
    p_value = 0.0 if t is None else 2 * float(student_cdf(degrees, -abs(t)))
    return TTest(mean, mean - reach, mean + reach, t, degrees, p_value)


def t_test_over_languages(first: Scores, second: Scores) -> TTest | None:
    """The paired t-test of the CER that treats languages as a random sample; None for a single language."""
    before, after = (list(scores.rates("cer").values()) for scores in (first, second))
    return paired_t_test(before, after) if len(before) > 1 else None
