"""Packing: the utterances of one group into batches of one total duration.

Every utterance is in exactly one batch. Totals lie near the target, and the utterances of a batch have similar lengths.
The same durations and the same generator give the same batches; another generator gives others, but equally many. The
cost is that of a few sorts, O(n log n).

k utterances fill a batch exactly when their mean is target / k. So the utterances, sorted from long to short, are cut
into *bands*, each with the mean target / k for some k. Each band is split into *shells*: the longest utterances and
those that make up for them, so that long utterances share batches and cost less padding. A shell of k * m utterances is
*dealt* into m batches like k rows of cards. A row holds utterances of nearly one length and gives one to each batch,
the longest to the batch that is emptiest without it.

Bands need durations that vary about their middle. Where they do not (most utterances of one length, or a few long ones
among many short), best fit is closer to the target and takes their place.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from .batch_arrays import Durations, Indices, PackedBatches, Seconds, running_total

# A band has at least this many batches: utterances dealt to a single batch have nothing to change places with.
MIN_BAND = 2

# Shells save padding where a batch has few utterances. Of many and so short ones, lengths differ little within a band.
MAX_SHELLED_SIZE = 8
NUM_SHELLS = 4
MIN_SHELL = 8  # batches, so that there is something to deal

# Rows dealt by the totals of the batches; any others stay as shuffled. More of them would change nothing but the time.
MAX_ROWS_MATCHED = 8

# Which batch is the emptiest is judged by totals blurred by this share of the target. Without it a shell with two
# utterances per batch has one answer only, longest with shortest, and every epoch would see the same pairs.
BLUR = 0.004

# Where bands bring totals this near to the target on average, as a share of it, nothing else is tried.
BANDS_SUFFICE = 0.006
BEST_FIT_SAMPLE = 4096
SLOT_BLUR = 0.01  # which utterances are similar enough to change places among the slots of best fit


class Packer:
    """Packs utterances into batches whose durations sum to nearly `batch_duration`, different ones at each call.

    The number of batches is the one with totals nearest to the target. An utterance longer than the target forms its
    own batch.
    """

    def __init__(self, durations: Durations, batch_duration: Seconds) -> None:
        order = np.argsort(-durations, kind="stable")
        longest_first = durations[order]
        num_oversize = int(np.searchsorted(-longest_first, -batch_duration, side="left"))
        self._oversize, self._rest = order[:num_oversize], order[num_oversize:]
        self._longest_first = longest_first[num_oversize:]
        self._blur = BLUR * batch_duration
        self._shells: list[tuple[Indices, int]] = []
        self._slots: PackedBatches | None = None
        if len(self._rest):
            self._choose_method(batch_duration)

    def _choose_method(self, batch_duration: Seconds) -> None:
        for start, stop, num_batches in bands(self._longest_first, batch_duration):
            if stop == len(self._rest):
                num_batches = best_number(self._longest_first[start:], num_batches, batch_duration)
            for places, num in shells(self._longest_first[start:stop], num_batches):
                self._shells.append((start + places, num))
        rng = np.random.default_rng(0)
        totals = [deal(self._longest_first[places], num, 0.0, rng)[1] for places, num in self._shells]
        distance = mean_distance(np.concatenate(totals), batch_duration)
        if distance > BANDS_SUFFICE * batch_duration:
            slots = best_fit_slots(self._longest_first, batch_duration)
            if mean_distance(slots.totals(self._longest_first), batch_duration) < distance:
                self._slots = slots

    @property
    def num_batches(self) -> int:
        rest = sum(num for _, num in self._shells) if self._slots is None else len(self._slots)
        return len(self._oversize) + rest

    def pack(self, rng: np.random.Generator) -> PackedBatches:
        """Batches of the numbers 0 to n - 1, each in one of them; the batches in random order."""
        packed = [PackedBatches(self._oversize, np.arange(len(self._oversize) + 1))]
        if self._slots is None:
            for places, num_batches in self._shells:
                dealt, _ = deal(self._longest_first[places], num_batches, self._blur, rng)
                packed.append(PackedBatches(self._rest[places[dealt.indices]], dealt.offsets))
        else:
            blurred = self._longest_first * rng.uniform(1 - SLOT_BLUR, 1 + SLOT_BLUR, len(self._rest))
            packed.append(PackedBatches(self._rest[np.argsort(-blurred)[self._slots.indices]], self._slots.offsets))
        batches = PackedBatches.join(packed)
        return batches.take(rng.permutation(len(batches)))


def best_fit_slots(longest_first: Durations, batch_duration: Seconds) -> PackedBatches:
    """Batches of places in the order of lengths, by best fit: each, longest first, where the least room is left.

    Of many utterances, every n-th is packed, and its neighbors take the same slots of further batches, so that the cost
    stays bounded. Utterances of similar length change places among the slots from pass to pass.
    """
    step = -(-len(longest_first) // BEST_FIT_SAMPLE)
    batches: list[list[int]] = []
    rooms: list[tuple[float, int]] = []  # of the batches so far, the smallest first
    for slot, duration in enumerate(longest_first[::step].tolist()):
        place = bisect_left(rooms, (duration, 0))
        if place == len(rooms):
            room, number = (1 + SLOT_BLUR / 2) * batch_duration, len(batches)
            batches.append([])
        else:
            room, number = rooms.pop(place)
        batches[number].append(slot)
        insort(rooms, (room - duration, number))
    sample = PackedBatches(np.concatenate(batches), running_total([len(batch) for batch in batches]))
    parts = []
    for shift in range(step):
        places = sample.indices * step + shift
        exists = places < len(longest_first)
        sizes = np.add.reduceat(exists, sample.offsets[:-1])
        parts.append(PackedBatches(places[exists], running_total(sizes[sizes > 0])))
    return PackedBatches.join(parts)


def bands(longest_first: Durations, batch_duration: Seconds) -> Iterator[tuple[int, int, int]]:
    """Cuts utterances into bands, and yields (start, stop, number of batches) of each.

    The first utterances of a band are longer than target / k, those after them shorter, and it ends where the two
    balance. What is left when no such end comes is the last band, whose batches may differ in size.
    """
    start, end = 0, len(longest_first)
    sums = running_total(longest_first)
    num_left = round(sums[end] / batch_duration)
    size = 1
    while num_left >= 2 * MIN_BAND:
        # What the bands before took too much or too little of is spread over the batches still to fill.
        target = (sums[end] - sums[start]) / num_left
        size = max(size, int(np.ceil(target / longest_first[start])))
        surplus = sums[start::size] - sums[start]
        surplus -= target * np.arange(len(surplus))
        num_batches = int(np.argmax(surplus < 0))
        if surplus[num_batches] >= 0:
            break
        if surplus[num_batches - 1] < -surplus[num_batches]:
            num_batches -= 1
        if num_batches < MIN_BAND:
            size += 1  # more and so shorter utterances per batch make the band longer
            continue
        if num_left - num_batches < MIN_BAND or start + num_batches * size >= end:
            break
        yield start, start + num_batches * size, num_batches
        start += num_batches * size
        num_left -= num_batches
    yield start, end, min(max(1, num_left), end - start)


def shells(longest_first: Durations, num_batches: int) -> Iterator[tuple[Indices, int]]:
    """Splits a band into shells, and yields (places in the band, number of batches) of each.

    A shell has the longest utterances left, two or more per batch, and those that make its mean that of the band. One
    batch of 20, 20 and 10 seconds needs less padding than two of 20, 15 and 15.
    """
    left = np.arange(len(longest_first))
    size, uneven = divmod(len(longest_first), num_batches)
    per_shell = max(MIN_SHELL, -(-num_batches // NUM_SHELLS))
    target = per_shell * longest_first.sum() / num_batches
    while not uneven and size <= MAX_SHELLED_SIZE and num_batches >= 2 * per_shell:
        sums = running_total(longest_first[left])
        for num_long in range(size - 1, 1, -1):
            long, short = num_long * per_shell, (size - num_long) * per_shell
            missing = target - sums[long]
            windows = sums[long + short :] - sums[long : len(sums) - short]  # sums of `short` in a row, falling
            if windows[-1] <= missing:
                break
        else:
            break
        begin = long + min(int(np.searchsorted(-windows, -missing)), len(windows) - 1)
        taken = np.r_[:long, begin : begin + short]
        yield left[taken], per_shell
        left = np.delete(left, taken)
        num_batches -= per_shell
    yield left, num_batches


def best_number(longest_first: Durations, num_batches: int, batch_duration: Seconds) -> int:
    """The number of batches that keeps totals nearest to the target, for the last band.

    `num_batches` is right on average, but with utterances of nine tenths of the target it would give every ninth batch
    two of them. Batches of one size, the next smaller or the next larger, may then be nearer.
    """
    size = len(longest_first) // num_batches
    choices = sorted({num_batches, len(longest_first) // size, max(1, len(longest_first) // (size + 1))})

    def distance(choice: int) -> float:
        _, totals = deal(longest_first, choice, 0.0, np.random.default_rng(0))
        return mean_distance(totals, batch_duration)

    return min(choices, key=distance)


def deal(
    longest_first: Durations, num_batches: int, blur: Seconds, rng: np.random.Generator
) -> tuple[PackedBatches, Durations]:
    """Deals utterances into batches like rows of cards; returns the batches and their totals."""
    num_rows = -(-len(longest_first) // num_batches)
    rows = np.zeros((num_rows, num_batches))  # the last row may have fewer utterances than there are batches
    rows.flat[: len(longest_first)] = longest_first
    in_order = np.arange(num_batches)
    places = rng.permuted(np.tile(in_order, (num_rows, 1)), axis=1)
    held = np.take_along_axis(rows, places, axis=1)
    totals = held.sum(axis=0)
    for row in rng.permutation(num_rows)[:MAX_ROWS_MATCHED]:
        totals -= held[row]
        emptiest_first = (totals + blur * rng.standard_normal(num_batches)).argsort()
        places[row, emptiest_first] = in_order
        held[row, emptiest_first] = rows[row]
        totals += held[row]
    utterances = (places + num_batches * np.arange(num_rows)[:, None]).T
    real = utterances < len(longest_first)
    return PackedBatches(utterances[real], running_total(real.sum(axis=1))), totals


def mean_distance(totals: Durations, batch_duration: Seconds) -> Seconds:
    return float(np.abs(totals - batch_duration).mean())
