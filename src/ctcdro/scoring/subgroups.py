"""Subgroups of test utterances with more errors than their languages, corrected for multiple comparisons.

A subgroup is defined by up to three attributes, such as one speaker, or short utterances of one corpus in Czech. Its
excess is its error rate minus the rate that it would have if each of its utterances had the rate of its language. So a
whole language is not a subgroup: other tables compare languages.

With many subgroups, some have a high excess by chance. The search therefore compares each excess, in standard errors,
with the highest one of any subgroup after errors are shuffled among the utterances of each language (Westfall and
Young, "Resampling-Based Multiple Testing", 1993). If errors do not depend on the attributes, the probability that the
search finds anything is 5%. The intervals hold for all subgroups at once, so the worst one needs no further correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from .edits import Floats, Integers
from .intervals import CONFIDENCE, Interval

with extra("data", "The search for subgroups"):
    from scipy import optimize, sparse

MAX_CONDITIONS = 3
"""Attributes that define a subgroup, at most."""
MIN_UTTERANCES = 10
"""Smaller subgroups are not searched."""
NUM_SHUFFLES = 1000
MAX_FOUND = 10

Conditions = dict[str, str]
"""Value of each attribute that defines a subgroup, such as {"language": "ces", "speaker": "a"}."""


@dataclass(frozen=True)
class Subgroup:
    """A subgroup with more errors than expected."""

    conditions: Conditions
    num_utterances: int
    rate: float
    expected: float
    """The rate that it would have if each utterance had the rate of its language."""
    excess: Interval
    """The rate minus the expected one, with an interval that holds for all subgroups at once."""
    p_value: float
    """Corrected for the number of subgroups."""


@dataclass(frozen=True)
class SubgroupSearch:
    """The result of a search."""

    num_searched: int
    found: list[Subgroup]
    """The clearest first. Errors that explain one subgroup do not count for the next."""


def find_subgroups(
    edits: Floats, lengths: Floats, language: Integers, attributes: Mapping[str, Sequence[str | None]], seed: int = 0
) -> SubgroupSearch:
    """Searches for subgroups with more errors than their languages.

    Args:
        edits: (n,) errors of each utterance.
        lengths: (n,) characters of each reference.
        language: (n,) number of its language.
        attributes: (n,) values of each attribute by its name; None where unknown.

    Example:
        >>> edits = np.array([1.0] * 40 + [5.0] * 20)
        >>> speakers = ["a"] * 20 + ["b"] * 20 + ["c"] * 20
        >>> [worst] = find_subgroups(edits, np.full(60, 20.0), np.zeros(60, int), {"speaker": speakers}).found
        >>> worst.conditions, worst.rate, round(worst.expected, 3), worst.p_value < 0.01
        ({'speaker': 'c'}, 0.25, 0.117, True)
    """
    has_text = lengths > 0
    chosen = np.flatnonzero(has_text).tolist()
    values = {name: [of_all[index] for index in chosen] for name, of_all in attributes.items()}
    errors = _Errors.of(edits[chosen], lengths[chosen], language[chosen])
    subgroups = list(_candidates(values, errors)) if len(chosen) else []
    if not subgroups:
        return SubgroupSearch(0, [])
    members = _matrix([indices for _, indices in subgroups], len(chosen))
    highest = _highest_of_shuffled(members, errors, np.random.default_rng(seed))
    found = _select([conditions for conditions, _ in subgroups], members, errors, highest)
    return SubgroupSearch(len(subgroups), found)


@dataclass(frozen=True)
class _Errors:
    """Errors of n utterances relative to their languages."""

    lengths: Floats
    residuals: Floats
    """(n,) errors minus those expected from the rate of the language."""
    expected: Floats
    """(n,) expected errors."""
    variance: Floats
    """(n,) of residuals of this length in the language."""
    language: Integers

    @classmethod
    def of(cls, edits: Floats, lengths: Floats, language: Integers) -> _Errors:
        _, language = np.unique(language, return_inverse=True)
        rates = np.bincount(language, edits) / np.bincount(language, lengths)
        expected = rates[language] * lengths
        residuals = edits - expected
        variance = np.empty(len(edits))
        for number in range(len(rates)):
            own = language == number
            variance[own] = _fit_variance(residuals[own], lengths[own])
        return cls(lengths, residuals, expected, variance, language)

    def scores(self, members: Any, residuals: Floats) -> Floats:
        """(subgroups, k) excess in standard errors, for (n, k) residuals."""
        return members @ residuals / self.deviations(members)[:, None]

    def deviations(self, members: Any) -> Floats:
        """(subgroups,) standard deviation of the sum of residuals, if it does not depend on attributes.

        The residuals of a language sum to zero, so a large part of a language varies less.
        """
        part = self._by_language(members, self.lengths) / np.bincount(self.language, self.lengths)
        own, total = self._by_language(members, self.variance), np.bincount(self.language, self.variance)
        return np.sqrt(np.maximum((own * (1 - 2 * part) + total * part**2).sum(axis=1), 1e-12))

    def _by_language(self, members: Any, values: Floats) -> Floats:
        """(subgroups, languages) sums of values."""
        rows = np.arange(len(values))
        return (members @ sparse.csr_array((values, (rows, self.language)))).toarray()

    def shuffled(self, rng: np.random.Generator, number: int) -> Floats:
        """(n, number) residuals in standard deviations, shuffled within languages."""
        scale = np.sqrt(self.variance)
        scaled = self.residuals / scale
        keys = rng.random((number, len(scaled)))
        result = np.empty((number, len(scaled)))
        order = np.argsort(self.language, kind="stable")
        for indices in np.split(order, np.cumsum(np.bincount(self.language))[:-1]):
            drawn = scaled[indices][np.argsort(keys[:, indices], axis=1)] * scale[indices]
            mean = drawn.sum(axis=1, keepdims=True) / self.lengths[indices].sum()
            result[:, indices] = drawn - mean * self.lengths[indices]
        return result.T


def _fit_variance(residuals: Floats, lengths: Floats) -> Floats:
    """Variances of residuals by length: a * length + b * length**2, for errors of characters and of utterances."""
    terms = np.stack([np.ones(len(lengths)), lengths], axis=1)
    coefficients, _ = optimize.nnls(terms, residuals**2 / lengths)
    return np.maximum(lengths * (terms @ coefficients), 1e-12)


def _candidates(
    values: Mapping[str, Sequence[str | None]], errors: _Errors
) -> Iterator[tuple[Conditions, npt.NDArray[np.int64]]]:
    """The conditions and utterances of subgroups, those with the fewest conditions first, without duplicates."""
    seen: set[bytes] = set()
    sizes = np.bincount(errors.language)
    for number in range(1, MAX_CONDITIONS + 1):
        for names in combinations(values, number):
            for conditions, indices in _cells(values, names):
                whole = np.bincount(errors.language[indices], minlength=len(sizes))
                is_union_of_languages = bool(((whole == 0) | (whole == sizes)).all())
                if len(indices) >= MIN_UTTERANCES and not is_union_of_languages and indices.tobytes() not in seen:
                    seen.add(indices.tobytes())
                    yield conditions, indices


def _cells(
    values: Mapping[str, Sequence[str | None]], names: Sequence[str]
) -> Iterator[tuple[Conditions, npt.NDArray[np.int64]]]:
    cells: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(zip(*(values[name] for name in names), strict=True)):
        known = tuple(value for value in row if value is not None)
        if len(known) == len(names):
            cells.setdefault(known, []).append(index)
    for key, indices in sorted(cells.items()):
        yield dict(zip(names, key, strict=True)), np.array(indices, dtype=np.int64)


def _matrix(rows: Sequence[npt.NDArray[np.int64]], num_utterances: int) -> Any:
    """(subgroups, n) 1 for members."""
    columns, ends = np.concatenate(rows), np.cumsum([0, *map(len, rows)])
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(rows), num_utterances))


def _highest_of_shuffled(members: Any, errors: _Errors, rng: np.random.Generator) -> Floats:
    """(shuffles,) the highest score of any subgroup in each shuffle."""
    step = max(1, min(NUM_SHUFFLES, 10_000_000 // max(members.shape)))
    return np.concatenate(
        [
            errors.scores(members, errors.shuffled(rng, min(step, NUM_SHUFFLES - start))).max(axis=0)
            for start in range(0, NUM_SHUFFLES, step)
        ]
    )


def _select(conditions: Sequence[Conditions], members: Any, errors: _Errors, highest: Floats) -> list[Subgroup]:
    """The clearest subgroup, then the clearest without its utterances, while they are beyond chance."""
    limit = float(np.quantile(highest, CONFIDENCE))
    residuals = errors.residuals.copy()
    found: list[Subgroup] = []
    for _ in range(MAX_FOUND):
        scores = errors.scores(members, residuals[:, None])[:, 0]
        best = int(np.argmax(scores))
        beyond = int((highest >= scores[best]).sum())
        p_value = (1 + beyond) / (1 + len(highest))
        if p_value > 1 - CONFIDENCE:
            break
        own = members[[best]].indices
        found.append(_subgroup(conditions[best], own, errors, errors.deviations(members[[best]])[0], limit, p_value))
        residuals[own] = 0.0
    return found


def _subgroup(
    conditions: Conditions, own: Integers, errors: _Errors, deviation: float, limit: float, p_value: float
) -> Subgroup:
    length = errors.lengths[own].sum()
    expected = errors.expected[own].sum() / length
    excess = errors.residuals[own].sum() / length
    within = np.sqrt(((errors.residuals[own] - excess * errors.lengths[own]) ** 2).sum())
    reach = limit * max(float(deviation), float(within)) / length
    interval = Interval(float(excess), float(excess - reach), float(excess + reach))
    return Subgroup(conditions, len(own), float(expected + excess), float(expected), interval, p_value)
