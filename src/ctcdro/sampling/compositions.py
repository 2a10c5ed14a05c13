"""Packs a large group into batches of the compositions that need the least padding.

A *composition* says how many utterances of which length a batch has. A batch of n utterances is padded to n times its
longest. So a good composition has several utterances of its longest length, and shorter ones that bring the total to
the target: 14, 14, 14 and 8 s, or 14, 14, 11 and 11 s. Lengths are divided into classes, and a linear program finds how
many batches of each composition use up the utterances with the least padding.

The program is solved once. Each pass then shuffles the utterances of a class among the batches that need one, and
corrects the totals: of the utterances of a class, the emptiest batches get the longest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .batch_arrays import Durations, Indices, PackedBatches, Seconds, running_total
from .linear_program import SparseColumns, solve

CLASS_WIDTH = 0.025  # relative difference of the lengths in a class
MIN_SHARE = 0.005  # of the utterances: smaller neighboring classes are merged, because each class takes time
MAX_DIFFERENCE = 0.008  # of the lengths in merged classes, relative to the target
LENGTH_RANGE = 1000  # the longest relative to the shortest: shorter ones count as this long, which bounds the classes
NUM_CHOICES = 6  # at most, of the number of longest utterances in a batch
TOLERANCES = (-0.01, 0.0, 0.01)  # of totals, relative to the target: padding needs less if they may differ a little
ROUNDING = 0.006  # added to the tolerances, because there are only so many lengths

# The linear program starts from this price per second, less than what any composition costs, and from this part of the
# batches that some rounds of filling reach.
FIRST_PRICE = 0.95
FILLED = 0.9
NUM_FILLINGS = 3

OUTSIDE = 2.5  # cost of a second outside all compositions: more than the padding of any composition
MIN_FRACTION = 0.05  # of a batch, to be rounded up
NEARLY_FREE = 0.03  # extra cost, relative to the target, of compositions that still use up what is left over

# Utterances per batch to exchange by totals, beyond the longest ones.
MAX_EXCHANGED = 4

# Noise on the totals that decide which batch is the emptiest, as a fraction of the target, and the width of the part of
# a class from which a batch has its longest utterances. Without noise, the same utterances would meet in every pass.
BLUR = 0.004
MIXING = 0.1

Amounts = npt.NDArray[np.float64]


class Compositions(NamedTuple):
    """Each has utterances of up to three classes; the first is its longest."""

    classes: Indices
    """(3, compositions)"""
    counts: Indices
    """(3, compositions) utterances of each class"""

    @property
    def sizes(self) -> Indices:
        return self.counts.sum(axis=0)

    def totals(self, lengths: Durations) -> Durations:
        return (self.counts * lengths[self.classes]).sum(axis=0)

    def used(self, numbers: Indices | Amounts, num_classes: int) -> Amounts:
        """(classes,) utterances in `numbers` batches of each composition."""
        return np.bincount(self.classes.ravel(), (self.counts * numbers).ravel(), num_classes).astype(np.float64)


class Composer:
    """Packs positions in the order of lengths, except for the few that fit no composition."""

    def __init__(self, longest_first: Durations, batch_duration: Seconds) -> None:
        planned = np.maximum(longest_first, longest_first[0] / LENGTH_RANGE)
        class_of = length_classes(planned, batch_duration)
        available = np.bincount(class_of)
        lengths = np.bincount(class_of, planned) / available
        possible = possible_compositions(lengths, batch_duration)
        amounts, extra_costs = least_padded(possible, lengths, available, batch_duration)
        numbers, left = whole_batches(possible, amounts, extra_costs, batch_duration, available)
        self._lay_out(np.repeat(possible.classes, numbers, axis=1), np.repeat(possible.counts, numbers, axis=1), left)
        self._blur = BLUR * batch_duration

    def _lay_out(self, classes: Indices, counts: Indices, left: Indices) -> None:
        """Slots for utterances, batch by batch, longest first, and then those for what is left over."""
        sizes = counts.sum(axis=0)
        self._offsets = running_total(sizes)
        self._num_longest = counts[0]
        place_in_batch = np.arange(self._offsets[-1]) - np.repeat(self._offsets[:-1], sizes)
        self._longest = np.flatnonzero(place_in_batch < np.repeat(self._num_longest, sizes))
        in_batches = np.repeat(classes.T.ravel(), counts.T.ravel())
        class_of = np.concatenate([in_batches, np.repeat(np.arange(len(left)), left)])
        self._class_of = class_of.astype(np.int16)  # which numpy sorts by radix
        by_class = np.argsort(self._class_of, kind="stable")
        self.left_over = np.flatnonzero(by_class >= self._offsets[-1])
        """Positions that fit no composition: those of one pass, and of nearly the same lengths in all."""

    @property
    def num_batches(self) -> int:
        return len(self._offsets) - 1

    def pack(self, longest_first: Durations, rng: np.random.Generator) -> tuple[PackedBatches, Indices]:
        """Batches of positions, and the positions that are left over, in order."""
        num_slots, num_packed = len(self._class_of), self._offsets[-1]
        within_class = rng.random(num_slots)
        # The longest utterances of a batch are neighbors, so that padding is small.
        neighborhood = np.repeat(rng.random(self.num_batches), self._num_longest)
        within_class[self._longest] = (neighborhood + MIXING * within_class[self._longest]) / (1 + MIXING)
        places = np.empty(num_slots, dtype=np.int64)
        places[np.argsort(self._class_of + within_class)] = np.arange(num_slots)
        self._correct_totals(places, longest_first, rng)
        return PackedBatches(places[:num_packed], self._offsets), np.sort(places[num_packed:])

    def _correct_totals(self, places: Indices, longest_first: Durations, rng: np.random.Generator) -> None:
        """Exchanges utterances of the same class between batches, one utterance per batch at a time."""
        sizes = np.diff(self._offsets)
        totals = np.diff(running_total(longest_first[places])[self._offsets])
        for row in range(MAX_EXCHANGED):
            batches = np.flatnonzero(self._num_longest + row < sizes)
            slots = (self._offsets[:-1] + self._num_longest + row)[batches]
            held = places[slots]
            totals[batches] -= longest_first[held]
            blurred = totals[batches] + self._blur * rng.standard_normal(len(batches))
            emptiest_first = np.argsort(blurred)
            emptiest_first = emptiest_first[np.argsort(self._class_of[slots[emptiest_first]], kind="stable")]
            places[slots[emptiest_first]] = np.sort(held)
            totals[batches] += longest_first[places[slots]]


def length_classes(longest_first: Durations, target: Seconds) -> Indices:
    """The class of each utterance; classes are numbered without gaps from the longest."""
    # Bounds are products, not powers or logarithms, which are rounded differently on other CPUs: 1.025 is a bound.
    extremes = longest_first[[0, -1]].tolist()
    num_bounds = 2 + int(max(abs(math.log(seconds)) for seconds in extremes) / math.log1p(CLASS_WIDTH))
    above_one = np.cumprod(np.full(num_bounds, 1 + CLASS_WIDTH))
    bounds = np.concatenate([1 / above_one[::-1], [1.0], above_one])
    is_next = np.diff(np.searchsorted(bounds, longest_first, side="right")) < 0
    # Classes that begin in the same stretch of the order and in the same stretch of lengths are merged.
    first = np.concatenate([[0], np.flatnonzero(is_next) + 1])
    of_order = np.floor(first / (MIN_SHARE * len(longest_first)))
    of_lengths = np.floor(longest_first[first] / (MAX_DIFFERENCE * target))
    begins = (np.diff(of_order) > 0) | (np.diff(of_lengths) < 0)
    return running_total(begins)[running_total(is_next)]


def possible_compositions(lengths: Durations, target: Seconds) -> Compositions:
    """Compositions of some utterances of one class, and the length that is then missing.

    Batches have as few utterances as their longest allows, because each is padded to it. The length that is missing
    usually lies between two classes, and both are used. `lengths` are those of the classes, longest first.
    """
    sizes = np.ceil((1 + TOLERANCES[0]) * target / lengths).astype(np.int64)[:, None]
    choices = np.rint(1 + (sizes - 1) * np.arange(NUM_CHOICES) / (NUM_CHOICES - 1)).astype(np.int64)
    longest, choice = np.nonzero(np.diff(choices, axis=1, prepend=0))  # without the equal ones of small batches
    num_longest, num_others = choices[longest, choice], (sizes - choices)[longest, choice]
    longest, num_longest, num_others = (np.repeat(each, len(TOLERANCES)) for each in (longest, num_longest, num_others))
    tolerance = np.tile(TOLERANCES, len(longest) // len(TOLERANCES))
    missing = (1 + tolerance) * target - num_longest * lengths[longest]
    shorter = np.searchsorted(-lengths, -missing / np.maximum(num_others, 1))
    shorter = np.minimum(np.maximum(shorter, longest + 1), len(lengths) - 1)
    longer = np.maximum(shorter - 1, longest)
    difference = np.maximum(lengths[longer] - lengths[shorter], 1e-9 * target)
    num_longer = np.rint((missing - num_others * lengths[shorter]) / difference).clip(0, num_others).astype(np.int64)
    counts = np.stack([num_longest, num_longer, num_others - num_longer])
    counts[:2] = np.where(longer == longest, [counts[0] + counts[1], 0 * counts[1]], counts[:2])
    classes = np.where(counts > 0, [longest, longer, shorter], longest)
    totals = (counts * lengths[classes]).sum(axis=0)
    allowed = np.where(num_others > 0, np.abs(tolerance), TOLERANCES[-1]) + ROUNDING
    fits = (np.abs(totals - target) <= allowed * target) & ((longest < shorter) | (counts[2] == 0))
    # Other choices and tolerances may be the same composition. Four numbers describe it, as the longest gives its size.
    classes, counts = classes[:, fits], counts[:, fits]
    most = sizes[-1] + 1
    keys = ((longest[fits] * most + counts[0]) * most + counts[1]) * len(lengths) + classes.max(axis=0)
    _, distinct = np.unique(keys, return_index=True)
    return Compositions(classes[:, distinct], counts[:, distinct])


def least_padded(
    possible: Compositions, lengths: Durations, available: Indices, target: Seconds
) -> tuple[Amounts, Amounts]:
    """(compositions,) batches of each, in fractions, and what one batch would cost beyond the least padding.

    A further row of the program says that totals above and below the target balance, so that the utterances outside
    all compositions make whole batches, too.
    """
    num_classes = len(lengths)
    alone = np.arange(num_classes)
    balance = np.full((1, len(possible.sizes)), num_classes)
    columns = SparseColumns(
        np.hstack([np.vstack([possible.classes, balance]), np.tile(alone, (4, 1))]),
        np.hstack(
            [
                np.vstack([possible.counts, possible.totals(lengths) / target - 1]),
                np.vstack([np.ones(num_classes), np.zeros((3, num_classes))]),
            ]
        ),
        num_classes + 1,
    )
    costs = np.concatenate([possible.sizes * lengths[possible.classes[0]], OUTSIDE * lengths])
    amounts = first_amounts(possible, available)
    outside = available - possible.used(amounts, num_classes)
    start = np.append(amounts, outside), np.append(FIRST_PRICE * lengths, 0.0)
    amounts, prices = solve(columns, costs, np.append(available, 0.0), start)
    extra_costs = costs - columns.transposed_times(prices)
    return amounts[:-num_classes], extra_costs[:-num_classes]


def first_amounts(possible: Compositions, available: Indices) -> Amounts:
    """(compositions,) batches of each, in fractions, that use up most of the utterances, but none completely."""
    amounts = np.ones(len(possible.sizes))
    for _ in range(NUM_FILLINGS):
        room = available / np.maximum(possible.used(amounts, len(available)), 1e-9)  # zero if in no composition
        amounts *= np.where(possible.counts > 0, room[possible.classes], np.inf).min(axis=0)
    return FILLED * amounts


def whole_batches(
    possible: Compositions, amounts: Amounts, extra_costs: Amounts, target: Seconds, available: Indices
) -> tuple[Indices, Indices]:
    """(compositions,) whole numbers of batches, and (classes,) utterances that are left over.

    Fractions are rounded up where the utterances suffice, the largest first. Cheap compositions use up what remains.
    """
    numbers = np.floor(amounts).astype(np.int64)
    while (lacking := (available < possible.used(numbers, len(available)))).any():  # as amounts are approximate
        numbers -= (numbers > 0) & (lacking[possible.classes] & (possible.counts > 0)).any(axis=0)
    fractions = amounts - numbers
    by_fraction = np.argsort(-fractions, kind="stable")[: np.count_nonzero(fractions > MIN_FRACTION)]
    by_cost = np.argsort(extra_costs, kind="stable")[: np.count_nonzero(extra_costs <= NEARLY_FREE * target)]
    left = (available - possible.used(numbers, len(available))).astype(np.int64)
    add_batches(possible, by_fraction, 1, numbers, left)
    suffices = (possible.counts[:, by_cost] <= left[possible.classes[:, by_cost]]).all(axis=0)
    add_batches(possible, by_cost[suffices], available.sum(), numbers, left)
    return numbers, left


def add_batches(possible: Compositions, order: Indices, most: int, numbers: Indices, left: Indices) -> None:
    """Adds up to `most` batches of each composition, in this order, as many as what is left suffices for."""
    remaining, added = left.tolist(), []  # a list, because single numbers of an array take ten times as long
    columns = [*possible.classes[:, order].tolist(), *possible.counts[:, order].tolist()]
    for first, second, third, of_first, of_second, of_third in zip(*columns, strict=True):
        num_batches = min(
            most,
            remaining[first] // of_first,
            remaining[second] // (of_second or 1),  # without utterances, it is the first class
            remaining[third] // (of_third or 1),
        )
        remaining[first] -= num_batches * of_first
        remaining[second] -= num_batches * of_second
        remaining[third] -= num_batches * of_third
        added.append(num_batches)
    numbers[order] += np.array(added, dtype=np.int64)
    left[:] = remaining
