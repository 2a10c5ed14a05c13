"""What chance could have done: intervals of figures, and differences between systems.

The bootstrap draws utterances anew within each language, as many as there are, and works out all figures each time. Two
systems are compared on the same draws, so that what is hard for both cancels out. Intervals are percentiles of what was
drawn. They speak of the utterances that might have been tested; what another training run would give, only runs with
other seeds tell: `over_runs` and `paired_t_test`.

The same counts and the same seed give the same figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from .metrics import RATES, Counts, Floats, Scores

# Draws to hold at a time, for memory: some 30 MB.
_DRAWS_AT_A_TIME = 2_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and where it might have been."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of two systems, and the second less the first; the two-sided p-value is that of no difference."""

    first: float
    second: float
    value: float
    low: float
    high: float
    p_value: float


Found = TypeVar("Found", Interval, Difference)


@dataclass(frozen=True)
class Resampled(Generic[Found]):
    """Intervals of a system's figures, or differences between those of two systems."""

    confidence: float
    num_resamples: int
    seed: int
    summary: dict[str, Found]
    """By names of `Scores.summary`: the worst, best and mean over languages, and over all utterances, of each rate."""
    languages: dict[str, dict[str, Found]]
    """By language and rate."""


def bootstrap(
    counts: Counts, num_resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> Resampled[Interval]:
    """Percentile intervals of a system's figures.

    The worst language of a draw is the worst by chance, too, so that the interval of its rate lies somewhat high.

    Args:
        counts: of n utterances.
        num_resamples: how many times n utterances are drawn.
        seed: of the draws.
        confidence: how often intervals shall hold the figure of endlessly many utterances.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from ctcdro.metrics import count
        >>> from ctcdro.transcripts import Prediction
        >>> texts = ["ahoj", "aho", "ah", "ahoj"] * 25
        >>> counts = count(Prediction(str(n), "ces", "ahoj", "ces", text) for n, text in enumerate(texts))
        >>> found = bootstrap(counts).languages["ces"]["cer"]
        >>> found.value, 0.14 < found.low < 0.16, 0.22 < found.high < 0.24
        (0.1875, True, True)
    """

    def interval(figure: Floats) -> Interval:
        low, high = _percentiles(figure[0, 1:], confidence)
        return Interval(float(figure[0, 0]), low, high)

    return _resampled([counts], num_resamples, seed, confidence, interval)


def compare(
    first: Counts, second: Counts, num_resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> Resampled[Difference]:
    """Percentile intervals of the differences between two systems, and whether they could be chance.

    The p-value is twice the share of draws on the far side of zero. With r draws it cannot be below 2 / (r + 1).

    Args:
        first: of n utterances.
        second: of the same utterances.
        num_resamples: how many times n utterances are drawn.
        seed: of the draws.
        confidence: how often intervals shall hold the difference of endlessly many utterances.

    Raises:
        ValueError: if an argument is out of range, or the two are of different utterances, references or profiles.

    Example:
        >>> from ctcdro.metrics import count
        >>> from ctcdro.transcripts import Prediction
        >>> first = count(Prediction(str(n), "ces", "ahoj", "ces", "aho") for n in range(50))
        >>> second = count(Prediction(str(n), "ces", "ahoj", "ces", "ahoj") for n in range(50))
        >>> compare(first, second, num_resamples=999).summary["worst_cer"]
        Difference(first=0.25, second=0.0, value=-0.25, low=-0.25, high=-0.25, p_value=0.002)
    """
    if first.profile != second.profile:
        raise ValueError(f"`second` must be of the profile of `first`, {first.profile}; got {second.profile}.")
    if first.ids != second.ids or [first.languages[one] for one in first.language] != [
        second.languages[one] for one in second.language
    ]:
        raise ValueError(
            "`second` must have the utterances of `first`, in the same order and languages: only then do draws pair."
        )
    for unit in ("characters", "words"):
        ours, theirs = (getattr(counts, unit).reference for counts in (first, second))
        if (differing := np.flatnonzero(ours != theirs)).size:
            place = differing[0]
            raise ValueError(
                f"`second` must have the references of `first`: that of utterance {first.ids[place]!r} has "
                f"{ours[place]} {unit} in `first`, and {theirs[place]} in `second`."
            )

    def difference(figure: Floats) -> Difference:
        differences = figure[1] - figure[0]
        low, high = _percentiles(differences[1:], confidence)
        one, other = figure[:, 0].tolist()
        return Difference(one, other, float(differences[0]), low, high, _p_value(differences[1:]))

    return _resampled([first, second], num_resamples, seed, confidence, difference)


def _resampled(
    systems: Sequence[Counts],
    num_resamples: int,
    seed: int,
    confidence: float,
    found: Callable[[Floats], Found],
) -> Resampled[Found]:
    if num_resamples < 1:
        raise ValueError(f"`num_resamples` must be positive; got {num_resamples}.")
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be between 0 and 1; got {confidence!r}.")
    sums = _sums(systems, num_resamples, np.random.default_rng(seed))
    rates, together = _divided(sums), _divided(sums.sum(axis=3))
    summary = {name: found(figure) for name, figure in _summary(rates, together) if _can_be_told(figure)}
    languages = {
        language: {
            name: found(rates[:, rate, :, place])
            for rate, name in enumerate(RATES)
            if _can_be_told(rates[:, rate, :, place])
        }
        for place, language in enumerate(systems[0].languages)
    }
    return Resampled(confidence, num_resamples, seed, summary, languages)


def _can_be_told(figure: Floats) -> bool:
    """Whether a figure is over something, in the data themselves and in some draw."""
    return not np.isnan(figure[:, 0]).any() and not np.isnan(figure[:, 1:]).all()


def _sums(systems: Sequence[Counts], num_resamples: int, generator: np.random.Generator) -> Floats:
    """(systems, rates, 1 + draws, languages, 2) errors and weights; the first "draw" has each utterance once."""
    shares = [system.shares() for system in systems]
    # (n, systems * rates * 2)
    columns = np.stack(
        [column for one in shares for name in RATES for column in (one[name].errors, one[name].weights)], axis=1
    )
    sums = np.empty((num_resamples + 1, len(systems[0].languages), columns.shape[1]))
    for place in range(len(systems[0].languages)):
        own = columns[systems[0].language == place]
        sums[0, place] = own.sum(axis=0)
        start = 1
        for times in _draws(len(own), num_resamples, generator):
            sums[start : start + len(times), place] = times @ own
            start += len(times)
    split = sums.reshape(*sums.shape[:2], len(systems), len(RATES), 2)
    return split.transpose(2, 3, 0, 1, 4)


def _draws(num_utterances: int, num_resamples: int, generator: np.random.Generator) -> Iterator[Floats]:
    """How many times each utterance is drawn, (some draws, utterances) at a time."""
    rows = max(1, _DRAWS_AT_A_TIME // num_utterances)
    for start in range(0, num_resamples, rows):
        size = min(rows, num_resamples - start)
        chosen = generator.integers(num_utterances, size=(size, num_utterances))
        chosen += np.arange(size)[:, None] * num_utterances
        times = np.bincount(chosen.ravel(), minlength=size * num_utterances)
        yield times.reshape(size, num_utterances).astype(np.float64)


def _divided(sums: Floats) -> Floats:
    """Errors over weights; not a number where there is no weight."""
    errors, weights = sums[..., 0], sums[..., 1]
    return np.divide(errors, weights, out=np.full_like(errors, np.nan), where=weights > 0)


def _summary(rates: Floats, together: Floats) -> Iterator[tuple[str, Floats]]:
    """(systems, 1 + draws) of each figure, from (systems, rates, 1 + draws, languages) and the same over all."""
    for number, name in enumerate(RATES):
        own = rates[:, number]
        is_there = ~np.isnan(own)
        any_there = is_there.any(axis=-1)
        highest = np.where(any_there, np.where(is_there, own, -np.inf).max(axis=-1), np.nan)
        lowest = np.where(any_there, np.where(is_there, own, np.inf).min(axis=-1), np.nan)
        total = np.where(is_there, own, 0.0).sum(axis=-1)
        worst, best = (lowest, highest) if name == "lid" else (highest, lowest)
        yield f"worst_{name}", worst
        yield f"best_{name}", best
        yield f"mean_{name}", np.where(any_there, total / np.maximum(is_there.sum(axis=-1), 1), np.nan)
        yield f"overall_{name}", together[:, number]


def _percentiles(drawn: Floats, confidence: float) -> tuple[float, float]:
    drawn = drawn[~np.isnan(drawn)]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _p_value(drawn: Floats) -> float:
    drawn = drawn[~np.isnan(drawn)]
    far = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return min(1.0, 2 * (1 + int(far)) / (1 + len(drawn)))


@dataclass(frozen=True, slots=True)
class OverRuns:
    """A figure over runs that differ in their seed."""

    mean: float
    deviation: float | None
    """Standard deviation (over n - 1); None for a single run."""
    num_runs: int


def over_runs(runs: Sequence[Scores]) -> dict[str, OverRuns]:
    """Mean and deviation of each figure of `Scores.summary` that all runs have.

    Raises:
        ValueError: if there are no runs, or their profiles differ.

    Example:
        >>> from ctcdro.metrics import score
        >>> from ctcdro.transcripts import Prediction
        >>> runs = [score([Prediction("a", "ces", "ahoj", "ces", text)]) for text in ("ahoj", "aho", "ah")]
        >>> over_runs(runs)["worst_cer"]
        OverRuns(mean=0.25, deviation=0.25, num_runs=3)
    """
    profiles = sorted({run.profile for run in runs})
    if len(profiles) != 1:
        raise ValueError(f"`runs` must be scores of one profile; got {', '.join(profiles) or 'no runs'}.")
    found = {}
    for name in runs[0].summary():
        values = [run.summary()[name] for run in runs]
        there = [value for value in values if value is not None]
        if len(there) == len(values):
            deviation = statistics.stdev(there) if len(there) > 1 else None
            found[name] = OverRuns(statistics.fmean(there), deviation, len(there))
    return found


@dataclass(frozen=True, slots=True)
class TTest:
    """A paired t-test: the mean of second less first, its interval, t, and the two-sided p-value."""

    value: float
    low: float
    high: float
    t: float | None
    """None if all differences are the same, and not zero."""
    degrees: int
    p_value: float


def paired_t_test(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> TTest:
    """Whether the mean difference of pairs, of languages or of runs with the same seed, could be chance.

    Raises:
        ValueError: if there are fewer than two pairs, or an argument is out of range.

    Example:
        >>> found = paired_t_test([0.61, 0.64, 0.60, 0.63], [0.52, 0.57, 0.54, 0.55])
        >>> round(found.value, 3), f"{found.t:.2f}", found.degrees, round(found.p_value, 4)
        (-0.075, '-11.62', 3, 0.0014)
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"`first` and `second` must be pairs, two at least; got {len(first)} and {len(second)} values."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be between 0 and 1; got {confidence!r}.")
    differences = [theirs - ours for ours, theirs in zip(first, second, strict=True)]
    degrees = len(differences) - 1
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    reach = error * student_quantile((1 + confidence) / 2, degrees)
    t = mean / error if error else None if mean else 0.0
    p_value = 0.0 if t is None else 2 * student_cdf(-abs(t), degrees)
    return TTest(mean, mean - reach, mean + reach, t, degrees, p_value)


def student_cdf(t: float, degrees: float) -> float:
    """Student's distribution function.

    P(T <= t) = I_x(degrees / 2, 1 / 2) / 2 for t <= 0, with x = degrees / (degrees + t^2), I the regularised incomplete
    beta function.

    Example:
        >>> round(student_cdf(2.228138852, 10), 9)
        0.975
    """
    square = t * t
    # Of x and 1 - x both are worked out, since the difference would lose digits of small t.
    tail = _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square)) / 2
    return tail if t <= 0 else 1 - tail


def student_quantile(probability: float, degrees: float) -> float:
    """Where Student's distribution function reaches a probability.

    Example:
        >>> round(student_quantile(0.975, 3), 4)
        3.1824
    """
    if not 0 < probability < 1:
        raise ValueError(f"`probability` must be between 0 and 1; got {probability!r}.")
    if probability > 0.5:
        return -student_quantile(1 - probability, degrees)
    low = -1.0
    while student_cdf(low, degrees) > probability:
        low *= 2
    high = 0.0
    for _ in range(200):  # halved until floats end
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if student_cdf(middle, degrees) > probability else (middle, high)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b), the regularised incomplete beta function; `rest` is 1 - x."""
    if x <= 0 or rest <= 0:
        return float(x > 0)
    is_fast = x <= (a + 1) / (a + b + 2)
    return _by_fraction(a, b, x, rest) if is_fast else 1 - _by_fraction(b, a, rest, x)


def _by_fraction(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b) by its continued fraction, evaluated as Lentz does.

    References:
        NIST Digital Library of Mathematical Functions, 8.17.22.
    """
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest) - math.log(a)
    )
    # 1 + d1 / (1 + d2 / (1 + ...)) is the product of ratios of successive numerators, over those of denominators.
    value, numerators, denominators = 1.0, 1.0, 1.0
    for number in range(1, 1000):
        m, is_odd = divmod(number, 2)
        if is_odd:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        numerators = 1 + step / numerators
        denominators = 1 + step / denominators if number > 1 else 1.0
        value *= numerators / denominators
        if abs(numerators / denominators - 1) < 1e-15:
            break
    return front / value
