"""Confidence intervals of error rates, and tests of differences between two systems.

`confidence_intervals` and `compare` describe the sampling of test utterances: the utterances of a language are
independent draws, and their number is fixed. Two systems are compared utterance by utterance, so that their shared
difficulty cancels out. Variation between training runs is another matter: train with several seeds, then use
`over_runs` and `paired_t_test`.

A rate is a ratio of sums, errors over weights. Its standard error is that of the residuals, errors - rate * weights. A
few utterances that are very wrong make the ratio skewed. So t = (estimate - truth) / (standard error) is transformed
to g(t) = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6, which follows Student's distribution closely (Hall, 1992). Here a is the
skewness of the estimate, minus three times its correlation with the sum of the weights, which are random too.

The variance includes a pseudo-utterance that is wrong by one edit. Without it, utterances without errors, or with equal
ones, would make a rate certain. It is negligible unless errors are rare.

Language accuracy is a share of zeros and ones. Pseudo-utterances are added before its variance is estimated, two right
and two wrong for a single share (Agresti and Coull, 1998; Price and Bonett, 2004).

The worst language of the data is partly the worst by chance: see `_highest` and `_highest_difference`.

The same counts give the same figures. `benchmarks/coverage.py` simulates how often intervals contain the truth.

References:
    P. Hall, "On the removal of skewness by transformation", JRSS B 54 (1992).
    A. Agresti and B. A. Coull, "Approximate is better than 'exact' for interval estimation of binomial proportions",
        The American Statistician 52 (1998).
    R. M. Price and D. G. Bonett, "An improved confidence interval for a linear function of binomial proportions",
        Computational Statistics and Data Analysis 45 (2004).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .scores import RATES, Counts, Floats, Integers, Scores

SCREENING_LEVEL = 0.05
"""A language may be the worst unless a test at this level, divided by the number of languages, finds it better."""
AGREEMENT_LEVEL = 0.2
"""Languages change by the same amount unless a test at this level rejects it."""
_NUM_DRAWS = 2000

# Number, sum and sum of squares of pseudo-utterances: two right and two wrong; one better and one worse.
_PSEUDO_OF_SHARE = np.array([4.0, 2.0, 2.0])
_PSEUDO_OF_DIFFERENCE = np.array([2.0, 0.0, 2.0])

_NORMAL = NormalDist()
_upper_tail = np.vectorize(lambda z: 0.5 * math.erfc(z / math.sqrt(2)), otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of two systems; the second minus the first, with its interval and two-sided p-value."""

    first: float
    second: float
    value: float
    low: float
    high: float
    p_value: float


Found = TypeVar("Found", Interval, Difference)


@dataclass(frozen=True)
class Uncertainty(Generic[Found]):
    """Intervals of the figures of one system, or differences between those of two."""

    confidence: float
    summary: dict[str, Found]
    """By names of `Scores.summary`: the worst, best and mean over languages, and all utterances, of each rate."""
    languages: dict[str, dict[str, Found]]
    """By language and rate."""


def confidence_intervals(counts: Counts, confidence: float = 0.95) -> Uncertainty[Interval]:
    """Confidence intervals of the figures of a system.

    The interval of the worst rate is that of the highest true rate of any language, whichever language has it.

    Args:
        counts: of n utterances.
        confidence: how often intervals contain the figure of infinitely many utterances.

    Raises:
        ValueError: if `confidence` is out of range.

    Example:
        >>> from ctcdro.scoring.scores import count
        >>> from ctcdro.scoring.transcripts import Prediction
        >>> texts = ["ahoj", "aho", "ah", "ahoj"] * 25
        >>> counts = count(Prediction(str(n), "ces", "ahoj", "ces", text) for n, text in enumerate(texts))
        >>> found = confidence_intervals(counts).languages["ces"]["cer"]
        >>> found.value, round(found.low, 3), round(found.high, 3)
        (0.1875, 0.147, 0.231)
    """
    _check_confidence(confidence)
    tail = (1 - confidence) / 2
    summary: dict[str, Interval] = {}
    languages: dict[str, dict[str, Interval]] = {name: {} for name in counts.languages}
    for name, rate in _rates([counts]):
        [system] = rate.systems
        for place, (value, low, high) in enumerate(zip(system.value, *system.limits(tail), strict=True)):
            languages[rate.languages[place]][name] = _within_bounds(name, value, low, high)
        for figure, sign in _directions(name):
            lowest, highest = _highest(system * sign, confidence)
            low, high = sorted((sign * lowest, sign * highest))
            summary[f"{figure}_{name}"] = _within_bounds(name, _top(system, sign), low, high)
        for figure, one in (("mean", rate.mean), ("overall", rate.overall)):
            summary[f"{figure}_{name}"] = _within_bounds(name, one.value, *one.limits(tail))
    return Uncertainty(confidence, summary, languages)


def compare(first: Counts, second: Counts, confidence: float = 0.95) -> Uncertainty[Difference]:
    """Differences between two systems on the same utterances, with intervals and p-values.

    An interval excludes zero exactly if the p-value is below 1 - confidence.

    Args:
        first: of n utterances.
        second: of the same utterances.
        confidence: how often intervals contain the difference of infinitely many utterances.

    Raises:
        ValueError: if an argument is out of range, or the two are of different utterances, references or profiles.

    Example:
        >>> from ctcdro.scoring.scores import count
        >>> from ctcdro.scoring.transcripts import Prediction
        >>> first = count(Prediction(str(n), "ces", "ahoj", "ces", "aho") for n in range(50))
        >>> second = count(Prediction(str(n), "ces", "ahoj", "ces", "ahoj") for n in range(50))
        >>> found = compare(first, second).summary["worst_cer"]
        >>> found.first, found.second, found.value, round(found.low, 3), round(found.high, 3)
        (0.25, 0.0, -0.25, -0.264, -0.236)
        >>> 0 < found.p_value < 1e-9
        True
    """
    _check_confidence(confidence)
    _check_pair(first, second)
    tail = (1 - confidence) / 2
    summary: dict[str, Difference] = {}
    languages: dict[str, dict[str, Difference]] = {name: {} for name in first.languages}
    for name, rate in _rates([first, second]):
        one, other = rate.systems
        found = (one.value, other.value, rate.each.value, *rate.each.limits(tail), rate.each.p_value())
        for place, parts in enumerate(zip(*found, strict=True)):
            languages[rate.languages[place]][name] = Difference(*map(float, parts))
        for figure, sign in _directions(name):
            limits = _highest_difference(one * sign, other * sign, rate.each * sign, confidence, name == "lid")
            low, high = sorted((sign * limits[0], sign * limits[1]))
            before, after = _top(one, sign), _top(other, sign)
            summary[f"{figure}_{name}"] = Difference(before, after, after - before, low, high, limits[2])
        for figure, whole in (("mean", rate.mean), ("overall", rate.overall)):
            before, after = (float(system.value @ rate.shares[figure]) for system in (one, other))
            low, high = map(float, whole.limits(tail))
            p_value = float(whole.p_value())
            summary[f"{figure}_{name}"] = Difference(before, after, float(whole.value), low, high, p_value)
    return Uncertainty(confidence, summary, languages)


def _within_bounds(rate: str, value: Any, low: Any, high: Any) -> Interval:
    highest = 1.0 if rate == "lid" else math.inf
    return Interval(float(value), max(0.0, float(low)), min(highest, float(high)))


def _directions(rate: str) -> tuple[tuple[str, int], tuple[str, int]]:
    """The sign with which the worst rate is the highest, and that with which the best is."""
    return (("worst", -1), ("best", 1)) if rate == "lid" else (("worst", 1), ("best", -1))


def _top(estimates: _Estimate, sign: int) -> float:
    return float(sign * (sign * estimates.value).max())


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be between 0 and 1; got {confidence!r}.")


def _check_pair(first: Counts, second: Counts) -> None:
    if first.profile != second.profile:
        raise ValueError(f"`second` must be of the profile of `first`, {first.profile}; got {second.profile}.")
    if first.ids != second.ids or [first.languages[one] for one in first.language] != [
        second.languages[one] for one in second.language
    ]:
        raise ValueError("`second` must have the utterances of `first`, in the same order and languages.")
    for unit in ("characters", "words"):
        ours, theirs = (getattr(counts, unit).reference for counts in (first, second))
        if (differing := np.flatnonzero(ours != theirs)).size:
            place = differing[0]
            raise ValueError(
                f"`second` must have the references of `first`: that of utterance {first.ids[place]!r} has "
                f"{ours[place]} {unit} in `first`, and {theirs[place]} in `second`."
            )


@dataclass(frozen=True)
class _Estimate:
    """Figures and the shape of their sampling distribution: arrays over languages, or single numbers."""

    value: Floats
    center: Floats
    """Center of the distribution; it differs from the value where pseudo-utterances were added."""
    variance: Floats
    third: Floats
    """Third cumulant, corrected for random weights."""
    degrees: Floats
    """Degrees of freedom of the variance."""

    def __mul__(self, sign: int) -> _Estimate:
        return _Estimate(sign * self.value, sign * self.center, self.variance, sign * self.third, self.degrees)

    def __getitem__(self, chosen: Any) -> _Estimate:
        return _Estimate(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def total(self, weights: Floats) -> _Estimate:
        """A weighted sum of independent estimates, over the last axis; with Welch's degrees of freedom."""
        variances = weights**2 * self.variance
        variance = variances.sum(axis=-1)
        spread = (variances**2 / self.degrees).sum(axis=-1)
        return _Estimate(
            (weights * self.value).sum(axis=-1),
            (weights * self.center).sum(axis=-1),
            variance,
            (weights**3 * self.third).sum(axis=-1),
            np.divide(variance**2, spread, out=np.full_like(variance, np.inf), where=spread > 0),
        )

    def limits(self, tail: float) -> tuple[Floats, Floats]:
        """Lower and upper limits; the truth is beyond each of them with probability `tail`."""
        reach = _student_of_normal(_NORMAL.inv_cdf(1 - tail), self.degrees)
        deviation, skewness = np.sqrt(self.variance), self._skewness()
        lower = self.center - deviation * _unskewed(reach, skewness)
        upper = self.center - deviation * _unskewed(-reach, skewness)
        return np.minimum(lower, self.value), np.maximum(upper, self.value)

    def tails(self) -> tuple[Floats, Floats]:
        """One-sided p-values against truths of at most zero, and of at least zero."""
        t = np.clip(self.center / np.sqrt(self.variance), -1e6, 1e6)
        z = _normal_of_student(_skewed(t, self._skewness()), self.degrees)
        return _upper_tail(z), _upper_tail(-z)

    def p_value(self) -> Floats:
        return np.minimum(1.0, 2 * np.minimum(*self.tails()))

    def _skewness(self) -> Floats:
        return _ratio(self.third, self.variance**1.5)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient; 0 where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


def _skewed(t: Floats, skewness: Floats) -> Floats:
    """Hall's transformation of t."""
    return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6


def _unskewed(g: Floats, skewness: Floats) -> Floats:
    """The inverse of `_skewed`."""
    is_skewed = np.abs(skewness) > 1e-9
    safe = np.where(is_skewed, skewness, 1.0)
    return np.where(is_skewed, 3 * (np.cbrt(1 + safe * (g - safe / 6)) - 1) / safe, g)


def _student_of_normal(z: float, degrees: Floats) -> Floats:
    """Student's quantile of the probability that z has in the normal distribution, to 0.1 % from 9 degrees on.

    References:
        D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of
        Mathematical Statistics 30 (1959).
    """
    finite = np.minimum(degrees, 1e9)
    scaled = z * (8 * finite + 3) / (8 * finite + 1)
    return np.sign(z) * np.sqrt(finite * np.expm1(scaled**2 / finite))


def _normal_of_student(t: Floats, degrees: Floats) -> Floats:
    """The inverse of `_student_of_normal`."""
    finite = np.minimum(degrees, 1e9)
    return np.sign(t) * np.sqrt(finite * np.log1p(t**2 / finite)) * (8 * finite + 1) / (8 * finite + 3)


@dataclass(frozen=True)
class _Rate:
    """One rate of one or two systems, over the languages that have it."""

    languages: list[str]
    systems: list[_Estimate]
    """Of each language."""
    each: _Estimate
    """The rate of a single system, or the difference of two, of each language."""
    mean: _Estimate
    overall: _Estimate
    shares: dict[str, Floats]
    """What languages contribute to `mean` and `overall`."""


def _rates(systems: Sequence[Counts]) -> Iterator[tuple[str, _Rate]]:
    """Rates by name, without those that no language has."""
    all_shares = [system.shares() for system in systems]
    names, language = systems[0].languages, systems[0].language
    for name in RATES:
        weights = all_shares[0][name].weights  # the same for both, as references are
        has_rate = np.bincount(language, weights, len(names)) > 0
        chosen = has_rate[language]
        if not chosen.any():
            continue
        place = (np.cumsum(has_rate) - 1)[language[chosen]]
        data = [_Data(shares[name].errors[chosen], weights[chosen], place) for shares in all_shares]
        combined = data[0] if len(data) == 1 else _Data(data[1].errors - data[0].errors, weights[chosen], place, True)
        total = np.bincount(place, weights[chosen])
        shares = {"mean": np.full(len(total), 1 / len(total)), "overall": total / total.sum()}
        if name == "lid":
            pseudo = _PSEUDO_OF_SHARE if len(data) == 1 else _PSEUDO_OF_DIFFERENCE
            each, parts = combined.shares(pseudo), combined.shares(pseudo / len(total))
            mean, overall = parts.total(shares["mean"]), parts.total(shares["overall"])
            own = [one.shares(_PSEUDO_OF_SHARE) for one in data]
        else:
            units = (systems[0].words if name == "wer" else systems[0].characters).reference[chosen]
            edit = total / np.bincount(place, units)
            each, overall = combined.ratios(edit), combined.pooled(edit)
            mean = each.total(shares["mean"])
            own = [one.ratios(edit) for one in data]
        languages = [one for one, there in zip(names, has_rate, strict=True) if there]
        yield name, _Rate(languages, own, each, mean, overall, shares)


@dataclass(frozen=True)
class _Data:
    """What n utterances contribute to a rate: errors, or their differences, over weights."""

    errors: Floats
    weights: Floats
    language: Integers
    is_difference: bool = False

    def ratios(self, edit: Floats) -> _Estimate:
        """The rate of each language.

        Args:
            edit: the errors that one edit in a typical utterance of the language adds.
        """
        weights = self._sums(self.weights)
        rate = self._sums(self.errors) / weights
        residuals = self.errors - rate[self.language] * self.weights
        squares, cubes, products = (self._sums(one) for one in (residuals**2, residuals**3, residuals * self.weights))
        skewness = _ratio(cubes, squares**1.5) - 3 * _ratio(products, np.sqrt(squares) * weights)
        variance, third = self._cumulants(squares, edit)
        third += skewness * (squares * self._correction()) ** 1.5
        return _Estimate(rate, rate, variance / weights**2, third / weights**3, self._degrees())

    def pooled(self, edit: Floats) -> _Estimate:
        """The rate of all utterances; as the number of each language is fixed, only deviations within it count."""
        weight = self.weights.sum()
        rate = self.errors.sum() / weight
        residuals = self.errors - rate * self.weights
        residuals = residuals - (self._sums(residuals) / self._numbers())[self.language]
        squares = self._sums(residuals**2)
        whole = squares.sum()
        skewness = _ratio((residuals**3).sum(), whole**1.5) - 3 * _ratio(
            (residuals * self.weights).sum(), np.sqrt(whole) * weight
        )
        variances, thirds = self._cumulants(squares, edit)
        third = thirds.sum() + skewness * (squares * self._correction()).sum() ** 1.5
        spread = (variances**2 / self._degrees()).sum()
        degrees = _ratio(variances.sum() ** 2, spread)
        return _Estimate(
            rate,
            rate,
            variances.sum() / weight**2,
            third / weight**3,
            np.where(degrees > 0, degrees, np.inf),
        )

    def _cumulants(self, squares: Floats, edit: Floats) -> tuple[Floats, Floats]:
        """The variance of the errors of each language, and the third cumulant of its pseudo-utterance.

        Utterances that are all alike do not make a rate certain. A single rate gets one pseudo-utterance, wrong by one
        edit; a difference gets one per system, of opposite signs. The standard error of a difference is at least the
        effect of dropping one utterance. A single utterance has no residual: its variance is the upper bound for rates
        between 0 and 1, or the square of its value.
        """
        numbers, errors, weights = self._numbers(), self._sums(self.errors), self._sums(self.weights)
        is_single = numbers == 1
        pseudo, bound = (2 * edit**2, weights**2) if self.is_difference else (edit**2, weights**2 / 4)
        variance = np.where(is_single, bound, squares * self._correction() + pseudo)
        floor = np.where(is_single | self.is_difference, (errors / numbers) ** 2, 0.0)
        return np.maximum(variance, floor), np.where(is_single | self.is_difference, 0.0, edit**3)

    def _correction(self) -> Floats:
        """Bessel's correction of the variance of each language."""
        numbers = self._numbers()
        return numbers / np.maximum(numbers - 1, 1)

    def shares(self, pseudo: Floats) -> _Estimate:
        """The share of ones in each language, or the difference of two; pseudo-utterances are added for the variance.

        Args:
            pseudo: their number, sum and sum of squares.
        """
        number, total = self._sums(self.weights), self._sums(self.errors)
        padded = number + pseudo[0]
        center = (total + pseudo[1]) / padded
        variance = ((self._sums(self.errors**2) + pseudo[2]) / padded - center**2) / padded
        zero = np.zeros_like(center)
        return _Estimate(total / number, center, np.maximum(variance, 0), zero, zero + np.inf)

    def _degrees(self) -> Floats:
        """Satterthwaite's degrees of freedom of the variance, for deviations that grow with the weights."""
        effective = self._sums(self.weights**2) ** 2 / self._sums(self.weights**4)
        return np.where(self._numbers() > 1, np.maximum(effective - 1, 1.0), np.inf)

    def _sums(self, values: Floats) -> Floats:
        return np.bincount(self.language, values).astype(np.float64, copy=False)

    def _numbers(self) -> Floats:
        return self._sums(((self.weights > 0) | (self.errors != 0)).astype(np.float64))


def _highest(estimates: _Estimate, confidence: float) -> tuple[float, float]:
    """Limits of the highest true figure of any language.

    The upper limit is the highest of the upper limits of languages: too low only if that of the true worst language
    is. The lower limit is the highest of the lower limits of the candidates. Each candidate may raise it above the
    truth, so that all of them together get the error that both limits of a single language have. With several
    candidates of about the same rate the upper limit is hardly ever too low; with one, each limit gets half.
    """
    error = 1 - confidence
    candidates = _candidates(estimates)
    tail = _tail(error, int(candidates.sum()))
    return float(estimates[candidates].limits(tail)[0].max()), float(estimates.limits(error / 2)[1].max())


def _candidates(estimates: _Estimate) -> npt.NDArray[np.bool_]:
    """The languages that may have the highest true figure."""
    number = len(estimates.value)
    top = int(np.argmax(estimates.center))
    reach = _NORMAL.inv_cdf(1 - SCREENING_LEVEL / number) if number > 1 else 0.0
    behind = estimates.center[top] - estimates.center
    return behind <= reach * np.sqrt(estimates.variance + estimates.variance[top])


def _highest_difference(
    first: _Estimate, second: _Estimate, paired: _Estimate, confidence: float, is_share: bool
) -> tuple[float, float, float]:
    """Limits and two-sided p-value of the highest figure of the second system minus that of the first.

    It is a difference between the figure of one language and that of another, or of the same. If all candidates change
    by the same amount, it does not matter which languages these are, and `_tied` computes the limits. Otherwise limits
    cover all pairs of candidates (see `_over_pairs`), which errs on the safe side. So do those of shares, which have
    too few different values to show that candidates differ.
    """
    candidates = _candidates(first) | _candidates(second)
    if not is_share and candidates.sum() > 1 and _agree(paired[candidates]):
        return _tied(first, second, paired, candidates, confidence)
    return _over_pairs(first, second, paired, confidence)


def _agree(differences: _Estimate) -> bool:
    """Whether differences of languages are compatible with a single one: Cochran's test."""
    precision = 1 / differences.variance
    mean = (precision * differences.center).sum() / precision.sum()
    spread = float((precision * (differences.center - mean) ** 2).sum())
    degrees = len(precision) - 1
    # Wilson and Hilferty's approximation of the chi-squared distribution.
    z = ((spread / degrees) ** (1 / 3) - 1 + 2 / (9 * degrees)) / math.sqrt(2 / (9 * degrees))
    return z <= _NORMAL.inv_cdf(1 - AGREEMENT_LEVEL)


def _tied(
    first: _Estimate, second: _Estimate, paired: _Estimate, candidates: npt.NDArray[np.bool_], confidence: float
) -> tuple[float, float, float]:
    """Limits and p-value if all candidates change by the same amount; simulates the highest of equal candidates."""
    variances = first.variance[candidates], second.variance[candidates]
    covariance = (variances[0] + variances[1] - paired.variance[candidates]) / 2
    # The symmetric root of each covariance matrix, and draws in both orders: exchanged systems give the opposite.
    determinant = np.sqrt(np.maximum(variances[0] * variances[1] - covariance**2, 0))
    trace = np.sqrt(variances[0] + variances[1] + 2 * determinant)
    draws = np.random.default_rng(0).standard_normal((2, _NUM_DRAWS // 2, int(candidates.sum())))
    draws = np.concatenate([draws, draws[::-1]], axis=1)
    highest = [
        _ratio((own + determinant) * draws[place] + covariance * draws[1 - place], trace).max(axis=1)
        for place, own in enumerate(variances)
    ]
    drawn = highest[1] - highest[0]
    value = float(second.value.max() - first.value.max())
    below, above = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    beyond = min((drawn >= value).sum(), (drawn <= value).sum())
    p_value = min(1.0, 2 * (1 + int(beyond)) / (1 + _NUM_DRAWS))
    return min(value, value - float(above)), max(value, value - float(below)), p_value


def _over_pairs(
    first: _Estimate, second: _Estimate, paired: _Estimate, confidence: float
) -> tuple[float, float, float]:
    """Limits and p-value over all pairs of a candidate h of the second system and a candidate g of the first.

    The difference is max_h min_g (second_h - first_g), or min_g max_h, which is the same. A limit can fail for each
    candidate of one system, so that its error is divided by their number, as in `_highest`.
    """
    value = float(second.value.max() - first.value.max())
    places = [np.flatnonzero(_candidates(one)) for one in (first, second)]
    pairs = _pairs(first, second, paired, *places)
    low = pairs.limits(_tail(1 - confidence, len(places[1])))[0].min(axis=1).max()
    high = pairs.limits(_tail(1 - confidence, len(places[0])))[1].max(axis=0).min()
    above, below = pairs.tails()
    p_value = min(
        _two_sided(float(above.max(axis=1).min()), len(places[1])),
        _two_sided(float(below.max(axis=0).min()), len(places[0])),
    )
    return min(float(low), value), max(float(high), value), p_value if value else 1.0


def _tail(error: float, number: int) -> float:
    """The error of one limit of each candidate: half of it for a single one, otherwise an equal part of it."""
    return error / 2 if number == 1 else 1 - (1 - error) ** (1 / number)


def _two_sided(p_value: float, number: int) -> float:
    """The error at which `_tail` is this."""
    return min(1.0, 2 * p_value) if number == 1 else 1 - (1 - p_value) ** number


def _pairs(
    first: _Estimate, second: _Estimate, paired: _Estimate, of_first: Integers, of_second: Integers
) -> _Estimate:
    """(second, first) differences between languages: paired of the same language, independent of two."""
    rows, columns = np.meshgrid(of_second, of_first, indexing="ij")
    both = _Estimate(
        *(
            np.stack([getattr(second, field.name)[rows], getattr(first, field.name)[columns]], axis=-1)
            for field in fields(first)
        )
    )
    independent = both.total(np.array([1.0, -1.0]))
    is_same = rows == columns
    return _Estimate(
        *(
            np.where(is_same, getattr(paired, field.name)[rows], getattr(independent, field.name))
            for field in fields(first)
        )
    )


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
        >>> from ctcdro.scoring.scores import score
        >>> from ctcdro.scoring.transcripts import Prediction
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

    P(T <= t) = I_x(degrees / 2, 1 / 2) / 2 for t <= 0, with x = degrees / (degrees + t^2), I the regularized incomplete
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
    """I_x(a, b), the regularized incomplete beta function; `rest` is 1 - x."""
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
