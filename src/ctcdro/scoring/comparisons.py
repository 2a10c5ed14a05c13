"""Differences between two systems on the same utterances, with confidence intervals and p-values.

Systems are compared utterance by utterance, so that differences in difficulty between utterances cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from .distributions import chi_squared_upper_tail
from .edits import Integers
from .estimates import Estimate, divide, estimate_rates
from .intervals import CONFIDENCE, Interval, Uncertainty, candidates, directions, tail_per_candidate
from .scores import Counts

AGREEMENT_LEVEL = 0.2
"""Languages are taken to change by the same amount unless a test at this level rejects it."""
_NUM_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Difference(Interval):
    """A rate of two systems: the second minus the first, with its interval and two-sided p-value."""

    first: float
    second: float
    p_value: float


def compare(first: Counts, second: Counts) -> Uncertainty[Difference]:
    """Compares two systems on the same utterances, with 95% confidence intervals.

    An interval excludes zero exactly if the p-value is below 0.05.

    Raises:
        ValueError: if the utterances, references or profiles differ.

    Example:
        >>> from ctcdro.scoring.scores import count
        >>> from ctcdro.scoring.transcripts import Prediction
        >>> first = count(Prediction(str(n), "ces", "ahoj", "ces", "aho") for n in range(50))
        >>> second = count(Prediction(str(n), "ces", "ahoj", "ces", "ahoj") for n in range(50))
        >>> worst = compare(first, second).summary["worst_cer"]
        >>> worst.first, worst.second, worst.value, round(worst.low, 3), round(worst.high, 3), worst.p_value < 1e-9
        (0.25, 0.0, -0.25, -0.264, -0.236, True)
    """
    _check_pair(first, second)
    tail = (1 - CONFIDENCE) / 2
    summary: dict[str, Difference] = {}
    languages: dict[str, dict[str, Difference]] = {name: {} for name in first.languages}
    for name, rate in estimate_rates([first, second]):
        before, after = rate.systems
        columns = (rate.each.value, *rate.each.limits(tail), before.value, after.value, rate.each.p_value())
        for language, *parts in zip(rate.languages, *columns, strict=True):
            languages[language][name] = Difference(*map(float, parts))
        for figure, sign in directions(name).items():
            first_rate, second_rate = (sign * float((sign * system.value).max()) for system in rate.systems)
            *limits, p_value = _highest_difference(before * sign, after * sign, rate.each * sign, name)
            low, high = sorted(sign * limit for limit in limits)
            difference = second_rate - first_rate
            summary[f"{figure}_{name}"] = Difference(difference, low, high, first_rate, second_rate, p_value)
        for figure, estimate in (("mean", rate.mean), ("overall", rate.overall)):
            rates = (system.value @ rate.weights[figure] for system in rate.systems)
            values = (estimate.value, *estimate.limits(tail), *rates, estimate.p_value())
            summary[f"{figure}_{name}"] = Difference(*map(float, values))
    return Uncertainty(CONFIDENCE, summary, languages)


def _check_pair(first: Counts, second: Counts) -> None:
    if first.profile != second.profile:
        raise ValueError(f"`second` must have the scoring profile of `first`, {first.profile}; got {second.profile}.")
    ours, theirs = ([counts.languages[number] for number in counts.language] for counts in (first, second))
    if first.ids != second.ids or ours != theirs:
        raise ValueError("`second` must have the utterances of `first`, in the same order and languages.")
    for unit in ("characters", "words"):
        lengths = [getattr(counts, unit).reference for counts in (first, second)]
        if (different := np.flatnonzero(lengths[0] != lengths[1])).size:
            index = different[0]
            raise ValueError(
                f"`second` must have the references of `first`: the reference of utterance {first.ids[index]!r} has "
                f"{lengths[0][index]} {unit} in `first` and {lengths[1][index]} in `second`."
            )


Limits = tuple[float, float, float]
"""Lower limit, upper limit and two-sided p-value."""


def _highest_difference(first: Estimate, second: Estimate, paired: Estimate, rate: str) -> Limits:
    """Limits and p-value of the highest rate of the second system minus that of the first.

    The two highest rates may belong to different languages. If all candidates change by the same amount, it does not
    matter which languages these are, and `_tied` computes the limits. Otherwise the limits cover all pairs of
    candidates (see `_over_pairs`), which is conservative. Language accuracy always uses the conservative limits: it has
    too few distinct values to show that candidates differ.
    """
    possible = candidates(first) | candidates(second)
    if rate != "lid" and possible.sum() > 1 and _agree(paired[possible]):
        return _tied(first, second, paired, possible)
    return _over_pairs(first, second, paired)


def _agree(differences: Estimate) -> bool:
    """Whether the differences are compatible with one common value for all languages (Cochran's test)."""
    precision = 1 / differences.variance
    mean = (precision * differences.center).sum() / precision.sum()
    spread = (precision * (differences.center - mean) ** 2).sum()
    return bool(chi_squared_upper_tail(len(precision) - 1, spread) >= AGREEMENT_LEVEL)


def _tied(first: Estimate, second: Estimate, paired: Estimate, possible: npt.NDArray[np.bool_]) -> Limits:
    """Limits if all candidates change by the same amount, by simulating the highest of equal candidates."""
    variances = first.variance[possible], second.variance[possible]
    covariance = (variances[0] + variances[1] - paired.variance[possible]) / 2
    # The symmetric root of each covariance matrix, and draws in both orders: swapping the systems flips the sign.
    determinant = np.sqrt(np.maximum(variances[0] * variances[1] - covariance**2, 0))
    trace = np.sqrt(variances[0] + variances[1] + 2 * determinant)
    draws = np.random.default_rng(0).standard_normal((2, _NUM_DRAWS // 2, int(possible.sum())))
    draws = np.concatenate([draws, draws[::-1]], axis=1)
    highest = [
        divide((variance + determinant) * draws[system] + covariance * draws[1 - system], trace).max(axis=1)
        for system, variance in enumerate(variances)
    ]
    drawn = highest[1] - highest[0]
    value = float(second.value.max() - first.value.max())
    below, above = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    beyond = min((drawn >= value).sum(), (drawn <= value).sum())
    p_value = min(1.0, 2 * (1 + int(beyond)) / (1 + _NUM_DRAWS))
    return min(value, value - float(above)), max(value, value - float(below)), p_value


def _over_pairs(first: Estimate, second: Estimate, paired: Estimate) -> Limits:
    """Limits over all pairs of a candidate h of the second system and a candidate g of the first.

    The difference is max_h min_g (second_h - first_g), or min_g max_h, which is the same. Each candidate of one system
    can make a limit fail, so the error is divided by their number, as in `intervals.highest`.
    """
    value = float(second.value.max() - first.value.max())
    of_first, of_second = (np.flatnonzero(candidates(estimates)) for estimates in (first, second))
    pairs = _pairs(first, second, paired, of_first, of_second)
    low = pairs.limits(tail_per_candidate(len(of_second)))[0].min(axis=1).max()
    high = pairs.limits(tail_per_candidate(len(of_first)))[1].max(axis=0).min()
    above, below = pairs.tails()
    p_value = min(
        _two_sided(float(above.max(axis=1).min()), len(of_second)),
        _two_sided(float(below.max(axis=0).min()), len(of_first)),
    )
    return min(float(low), value), max(float(high), value), p_value if value else 1.0


def _two_sided(p_value: float, number: int) -> float:
    """The error for which `tail_per_candidate` is the p-value."""
    return min(1.0, 2 * p_value) if number == 1 else 1 - (1 - p_value) ** number


def _pairs(first: Estimate, second: Estimate, paired: Estimate, of_first: Integers, of_second: Integers) -> Estimate:
    """(second, first) differences between languages: paired within a language, independent between two."""
    rows, columns = np.meshgrid(of_second, of_first, indexing="ij")
    names = [field.name for field in fields(Estimate)]
    both = [np.stack([getattr(second, name)[rows], getattr(first, name)[columns]], axis=-1) for name in names]
    independent = Estimate(*both).total(np.array([1.0, -1.0]))
    parts = [np.where(rows == columns, getattr(paired, name)[rows], getattr(independent, name)) for name in names]
    return Estimate(*parts)
