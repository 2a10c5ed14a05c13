"""Estimates of rates from a sample of test utterances, with the shape of their sampling distribution.

The utterances of a language are independent draws, and their number is fixed. A rate is a ratio of sums, numerator over
denominator. Its standard error is that of the residuals, numerator - rate * denominator. A few utterances with many
errors make the ratio skewed. So t = (estimate - truth) / (standard error) is transformed to
g(t) = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6, which follows Student's distribution closely (Hall, 1992). Here a is the
skewness of the estimate, minus three times its correlation with the sum of the denominators, which are random too.

The variance includes a pseudo-utterance with one error. Without it, the variance would be zero if no utterance has
errors, or all have equal rates. It is negligible unless errors are rare.

Language accuracy is a share of zeros and ones. Pseudo-utterances are added before its variance is estimated, two right
and two wrong for a single share (Agresti and Coull, 1998; Price and Bonett, 2004).

References: Hall, Journal of the Royal Statistical Society B 54 (1992); Agresti and Coull, The American Statistician 52
(1998); Price and Bonett, Computational Statistics and Data Analysis 45 (2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .distributions import normal_cdf, normal_of_student, normal_quantile, student_of_normal
from .edits import Floats, Integers
from .scores import RATES, Counts

# Number, sum and sum of squares of pseudo-utterances: two right and two wrong; one better and one worse.
_PSEUDO_OF_SHARE = np.array([4.0, 2.0, 2.0])
_PSEUDO_OF_DIFFERENCE = np.array([2.0, 0.0, 2.0])


@dataclass(frozen=True)
class Estimate:
    """Estimates and the shape of their sampling distribution: arrays over languages, or single numbers."""

    value: Floats
    center: Floats
    """Center of the distribution; it differs from the value if pseudo-utterances were added."""
    variance: Floats
    third: Floats
    """Third cumulant, corrected for random denominators."""
    degrees: Floats
    """Degrees of freedom of the variance."""

    def __mul__(self, sign: int) -> Estimate:
        return Estimate(sign * self.value, sign * self.center, self.variance, sign * self.third, self.degrees)

    def __getitem__(self, selected: Any) -> Estimate:
        return Estimate(*(getattr(self, field.name)[selected] for field in fields(self)))

    def total(self, weights: Floats) -> Estimate:
        """A weighted sum of independent estimates, over the last axis; with Welch's degrees of freedom."""
        variances = weights**2 * self.variance
        variance = variances.sum(axis=-1)
        return Estimate(
            (weights * self.value).sum(axis=-1),
            (weights * self.center).sum(axis=-1),
            variance,
            (weights**3 * self.third).sum(axis=-1),
            _welch(variance, (variances**2 / self.degrees).sum(axis=-1)),
        )

    def limits(self, tail: float) -> tuple[Floats, Floats]:
        """Lower and upper limits; the truth is beyond each of them with probability `tail`."""
        reach = student_of_normal(normal_quantile(1 - tail), self.degrees)
        deviation, skewness = np.sqrt(self.variance), self._skewness()
        lower = self.center - deviation * _inverse_hall(reach, skewness)
        upper = self.center - deviation * _inverse_hall(-reach, skewness)
        return np.minimum(lower, self.value), np.maximum(upper, self.value)

    def tails(self) -> tuple[Floats, Floats]:
        """One-sided p-values against truths of at most zero, and of at least zero."""
        t, skewness = np.clip(self.center / np.sqrt(self.variance), -1e6, 1e6), self._skewness()
        g = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6  # Hall's transformation
        z = normal_of_student(g, self.degrees)
        return normal_cdf(-z), normal_cdf(z)

    def p_value(self) -> Floats:
        """Two-sided, against a truth of zero."""
        return np.minimum(1.0, 2 * np.minimum(*self.tails()))

    def _skewness(self) -> Floats:
        return divide(self.third, self.variance**1.5)


def divide(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient; 0 where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


def _welch(variance: Floats, spread: Floats) -> Floats:
    degrees = divide(variance**2, spread)
    return np.where(degrees > 0, degrees, np.inf)


def _inverse_hall(g: Floats, skewness: Floats) -> Floats:
    is_skewed = np.abs(skewness) > 1e-9
    safe = np.where(is_skewed, skewness, 1.0)
    return np.where(is_skewed, 3 * (np.cbrt(1 + safe * (g - safe / 6)) - 1) / safe, g)


@dataclass(frozen=True)
class RateEstimates:
    """Estimates of a rate of one or two systems, over the languages that have it."""

    languages: list[str]
    systems: list[Estimate]
    each: Estimate
    """The rate of a single system, or the second minus the first, per language."""
    mean: Estimate
    overall: Estimate
    weights: dict[str, Floats]
    """Weights of languages in `mean` and `overall`."""


def estimate_rates(systems: Sequence[Counts]) -> Iterator[tuple[str, RateEstimates]]:
    """Yields the name and estimates of each rate, of one system or of two systems on the same utterances."""
    terms = [system.terms_by_part() for system in systems]
    names, parts = systems[0].languages, systems[0].parts
    language = parts.language
    for name in RATES:
        denominator = terms[0][name].denominator  # the same for both systems, as references are
        has_rate = np.bincount(language, denominator, len(names)) > 0
        chosen = has_rate[language]
        if not chosen.any():
            continue
        index = (np.cumsum(has_rate) - 1)[language[chosen]]
        samples = [_Sample(system[name].numerator[chosen], denominator[chosen], index) for system in terms]
        each = samples[0]
        if len(samples) == 2:
            each = _Sample(samples[1].numerator - each.numerator, each.denominator, index, is_difference=True)
        total = np.bincount(index, denominator[chosen])
        weights = {"mean": np.full(len(total), 1 / len(total)), "overall": total / total.sum()}
        if name == "lid":
            pseudo = _PSEUDO_OF_DIFFERENCE if each.is_difference else _PSEUDO_OF_SHARE
            padded = each.shares(pseudo / len(total))
            mean, overall = padded.total(weights["mean"]), padded.total(weights["overall"])
            of_systems, of_each = [sample.shares(_PSEUDO_OF_SHARE) for sample in samples], each.shares(pseudo)
        else:
            is_word = name == "wer"
            units = (systems[0].words if is_word else systems[0].characters).reference[parts.utterance]
            units = (units * (parts.share if is_word else parts.of_reference))[chosen]
            edit = total / np.bincount(index, units)
            of_systems, of_each = [sample.ratios(edit) for sample in samples], each.ratios(edit)
            mean, overall = of_each.total(weights["mean"]), each.pooled(edit)
        languages = [language for language, has in zip(names, has_rate, strict=True) if has]
        yield name, RateEstimates(languages, of_systems, of_each, mean, overall, weights)


@dataclass(frozen=True)
class _Sample:
    """Terms of n utterances in a rate, or differences between the terms of two systems."""

    numerator: Floats
    denominator: Floats
    language: Integers
    is_difference: bool = False

    def ratios(self, edit: Floats) -> Estimate:
        """The rate of each language. One edit in a typical utterance of a language adds `edit` to the numerator."""
        denominator = self._sum(self.denominator)
        rate = self._sum(self.numerator) / denominator
        residuals = self.numerator - rate[self.language] * self.denominator
        squares, cubes = self._sum(residuals**2), self._sum(residuals**3)
        products = self._sum(residuals * self.denominator)
        skewness = divide(cubes, squares**1.5) - 3 * divide(products, np.sqrt(squares) * denominator)
        variance, third = self._cumulants(squares, edit)
        third += skewness * (squares * self._bessel()) ** 1.5
        return Estimate(rate, rate, variance / denominator**2, third / denominator**3, self._degrees())

    def pooled(self, edit: Floats) -> Estimate:
        """The rate over all utterances. Numbers of utterances are fixed, so only deviations within languages count."""
        denominator = self.denominator.sum()
        rate = self.numerator.sum() / denominator
        residuals = self.numerator - rate * self.denominator
        residuals = residuals - (self._sum(residuals) / self._num_utterances())[self.language]
        squares = self._sum(residuals**2)
        total, product = squares.sum(), (residuals * self.denominator).sum()
        skewness = divide((residuals**3).sum(), total**1.5) - 3 * divide(product, np.sqrt(total) * denominator)
        variances, thirds = self._cumulants(squares, edit)
        variance = variances.sum()
        third = thirds.sum() + skewness * (squares * self._bessel()).sum() ** 1.5
        degrees = _welch(variance, (variances**2 / self._degrees()).sum())
        return Estimate(rate, rate, variance / denominator**2, third / denominator**3, degrees)

    def _cumulants(self, squares: Floats, edit: Floats) -> tuple[Floats, Floats]:
        """The variance of the numerator of each language, and the third cumulant of its pseudo-utterance.

        A single rate gets one pseudo-utterance with one error; a difference gets one per system, with opposite signs.
        The standard error of a difference is at least the effect of dropping one utterance. A single utterance has no
        residual: its variance is the upper bound for rates between 0 and 1, or the square of its value.
        """
        number, denominator = self._num_utterances(), self._sum(self.denominator)
        is_single = number == 1
        pseudo, bound = (2 * edit**2, denominator**2) if self.is_difference else (edit**2, denominator**2 / 4)
        variance = np.where(is_single, bound, squares * self._bessel() + pseudo)
        floor = np.where(is_single | self.is_difference, (self._sum(self.numerator) / number) ** 2, 0.0)
        return np.maximum(variance, floor), np.where(is_single | self.is_difference, 0.0, edit**3)

    def shares(self, pseudo: Floats) -> Estimate:
        """The share of ones in each language, or the difference of two; `pseudo` is added for the variance."""
        number, total = self._sum(self.denominator), self._sum(self.numerator)
        padded = number + pseudo[0]
        center = (total + pseudo[1]) / padded
        variance = ((self._sum(self.numerator**2) + pseudo[2]) / padded - center**2) / padded
        zero = np.zeros_like(center)
        return Estimate(total / number, center, np.maximum(variance, 0), zero, zero + np.inf)

    def _bessel(self) -> Floats:
        number = self._num_utterances()
        return number / np.maximum(number - 1, 1)

    def _degrees(self) -> Floats:
        """Satterthwaite's degrees of freedom of the variance, for deviations that grow with the denominator."""
        effective = self._sum(self.denominator**2) ** 2 / self._sum(self.denominator**4)
        return np.where(self._num_utterances() > 1, np.maximum(effective - 1, 1.0), np.inf)

    def _sum(self, values: Floats) -> Floats:
        return np.bincount(self.language, values).astype(np.float64, copy=False)

    def _num_utterances(self) -> Floats:
        return self._sum(((self.denominator > 0) | (self.numerator != 0)).astype(np.float64))
