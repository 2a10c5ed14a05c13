"""Packing: the utterances of one group into batches of one total duration.

What one can rely on:

* every utterance is in exactly one batch;
* totals lie near the target, and the utterances of a batch are of similar length. Which combination of utterances comes
  nearest is not searched for;
* the same durations and the same generator give the same batches, another generator gives others, and always as many;
* the cost is that of a few sorts, O(n log n).

How: k utterances fill a batch exactly when their mean is target / k. So the utterances, longest first, are cut into
*bands*, each of which has the mean target / k for a k of its own; each band is split into *shells*, the longest with
just those that make up for them, so that long utterances share batches and cost less padding; and a shell of k * m
utterances is *dealt* into m batches like k rows of cards: a row holds utterances of nearly one length and gives one to
each batch, the longest to the batch that is emptiest without it.

Bands need durations that vary about their middle. Where they do not (most utterances of one length, a few long ones
among many short), batches of one size cannot be made to match, and best fit, which comes nearer, takes their place.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Seconds: TypeAlias = float
Durations: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]

# Fewer batches than this are not a band of their own: what is dealt to one batch has nothing to change places with.
MIN_BAND = 2

# Shells save padding where a batch has few utterances. Of many and so short ones, lengths differ little within a band.
MAX_SHELLED_SIZE = 8
NUM_SHELLS = 4
MIN_SHELL = 8  # batches, so that there is something to deal

# Rows dealt by the totals of the batches; any others stay as shuffled. More of them would change nothing but the time.
MAX_ROWS_MATCHED = 8

# Which batch is the emptiest is judged by totals blurred by this share of the target. Without it a shell with two
# utterances a batch has one answer only, longest with shortest, and every epoch would see the same pairs.
BLUR = 0.004

# Where bands bring totals this near to the target on average, as a share of it, nothing else is tried.
BANDS_SUFFICE = 0.006
BEST_FIT_SAMPLE = 4096
SLOT_BLUR = 0.01  # which utterances are similar enough to change places among the slots of best fit


@dataclass(frozen=True)
class Batches:
    """Batches of utterance numbers, end to end in one array: as lists of lists, millions of them would fill the memory.

    Example:
        >>> batches = Batches(indices=np.array([4, 2, 7]), offsets=np.array([0, 2, 3]))
        >>> list(batches)
        [[4, 2], [7]]
    """

    indices: Indices
    offsets: Indices
    """Batch number b is `indices[offsets[b] : offsets[b + 1]]`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> list[int]:
        return self.indices[self.offsets[number] : self.offsets[number + 1]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return (self[number] for number in range(len(self)))

    @property
    def sizes(self) -> Indices:
        return np.diff(self.offsets)

    def take(self, order: Indices) -> Batches:
        """The batches of these numbers, in this order."""
        sizes = self.sizes[order]
        offsets = _running_total(sizes)
        source = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], sizes)
        return Batches(self.indices[source], offsets)

    @staticmethod
    def join(parts: Sequence[Batches]) -> Batches:
        """All batches of all parts, one after the other."""
        return Batches(
            np.concatenate([part.indices for part in parts]),
            _running_total(np.concatenate([part.sizes for part in parts])),
        )


@dataclass(frozen=True)
class Matching:
    """How well batches keep to their target.

    Example:
        >>> batches = Batches(np.array([0, 1, 2]), np.array([0, 2, 3]))
        >>> Matching.of(batches, np.array([4.0, 6.0, 9.0]), batch_duration=10.0)
        Matching(num_batches=2, share_within=0.5, total_std=0.5, padding=1.105...)
    """

    num_batches: int
    share_within: float
    """Share of the batches whose total is within 2 % of the target."""
    total_std: Seconds
    """Standard deviation of the totals."""
    padding: float
    """Seconds a padded batch holds over seconds of speech in it, over all batches."""

    @classmethod
    def of(cls, batches: Batches, durations: Durations, batch_duration: Seconds) -> Matching:
        spoken = durations[batches.indices]
        totals = _totals(batches, durations)
        longest = np.maximum.reduceat(spoken, batches.offsets[:-1])
        return cls(
            num_batches=len(batches),
            share_within=float(np.mean(np.abs(totals - batch_duration) <= 0.02 * batch_duration)),
            total_std=float(totals.std()),
            padding=float((longest * batches.sizes).sum() / totals.sum()),
        )


class Packer:
    """Packs utterances into batches whose durations sum to nearly `batch_duration`, anew at every call of `pack`.

    The number of batches is settled here, as the one that brings totals nearest to the target, and is the same at every
    call. An utterance longer than the target is a batch of its own.

    Args:
        durations: (n,) seconds, each of them positive; n >= 1.
        batch_duration: the target, in seconds.

    Example:
        >>> packer = Packer(np.array([6.0, 3.0, 2.0, 4.0, 8.0, 7.0]), batch_duration=10.0)
        >>> packer.num_batches
        3
        >>> sorted(sorted(batch) for batch in packer.pack(np.random.default_rng(0)))
        [[0, 3], [1, 5], [2, 4]]
    """

    def __init__(self, durations: Durations, batch_duration: Seconds) -> None:
        order = np.argsort(-durations, kind="stable")
        longest_first = durations[order]
        num_oversize = int(np.searchsorted(-longest_first, -batch_duration, side="left"))
        self._oversize, self._rest = order[:num_oversize], order[num_oversize:]
        self._longest_first = longest_first[num_oversize:]
        self._blur = BLUR * batch_duration
        self._shells: list[tuple[Indices, int]] = []
        self._slots: Batches | None = None
        if len(self._rest):
            self._settle(batch_duration)

    def _settle(self, batch_duration: Seconds) -> None:
        """Bands, unless they keep far from the target and best fit is nearer."""
        for start, stop, num_batches in _bands(self._longest_first, batch_duration):
            if stop == len(self._rest):
                num_batches = _best_number(self._longest_first[start:], num_batches, batch_duration)
            for places, num in _shells(self._longest_first[start:stop], num_batches):
                self._shells.append((start + places, num))
        rng = np.random.default_rng(0)
        totals = [_deal(self._longest_first[places], num, 0.0, rng)[1] for places, num in self._shells]
        distance = _distance(np.concatenate(totals), batch_duration)
        if distance > BANDS_SUFFICE * batch_duration:
            slots = _best_fit_slots(self._longest_first, batch_duration)
            if _distance(_totals(slots, self._longest_first), batch_duration) < distance:
                self._slots = slots

    @property
    def num_batches(self) -> int:
        rest = sum(num for _, num in self._shells) if self._slots is None else len(self._slots)
        return len(self._oversize) + rest

    def pack(self, rng: np.random.Generator) -> Batches:
        """Batches of the numbers 0 to n - 1, each in one of them; the batches in random order."""
        packed = [Batches(self._oversize, np.arange(len(self._oversize) + 1))]
        if self._slots is None:
            for places, num_batches in self._shells:
                dealt, _ = _deal(self._longest_first[places], num_batches, self._blur, rng)
                packed.append(Batches(self._rest[places[dealt.indices]], dealt.offsets))
        else:
            blurred = self._longest_first * rng.uniform(1 - SLOT_BLUR, 1 + SLOT_BLUR, len(self._rest))
            packed.append(Batches(self._rest[np.argsort(-blurred)[self._slots.indices]], self._slots.offsets))
        batches = Batches.join(packed)
        return batches.take(rng.permutation(len(batches)))


def _bands(longest_first: Durations, batch_duration: Seconds) -> Iterator[tuple[int, int, int]]:
    """Cuts utterances into bands, and yields (start, stop, number of batches) of each.

    The batches of a band have one size k, so the band must sum to the number of its batches times the target. Its first
    utterances are longer than target / k, those after them shorter, and it ends where the two balance. What is left
    when no such end comes is the last band, whose batches may differ in size.
    """
    start, end = 0, len(longest_first)
    sums = _running_total(longest_first)
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
            size += 1  # more and so shorter utterances a batch make the band longer
            continue
        if num_left - num_batches < MIN_BAND or start + num_batches * size >= end:
            break
        yield start, start + num_batches * size, num_batches
        start += num_batches * size
        num_left -= num_batches
    yield start, end, min(max(1, num_left), end - start)


def _shells(longest_first: Durations, num_batches: int) -> Iterator[tuple[Indices, int]]:
    """Splits a band into shells, and yields (places in the band, number of batches) of each.

    A shell has the longest utterances left, two or more of them a batch, and those that make its mean that of the band.
    One batch of 20, 20 and 10 seconds needs less padding than two of 20, 15 and 15.
    """
    left = np.arange(len(longest_first))
    size, uneven = divmod(len(longest_first), num_batches)
    per_shell = max(MIN_SHELL, -(-num_batches // NUM_SHELLS))
    target = per_shell * longest_first.sum() / num_batches
    while not uneven and size <= MAX_SHELLED_SIZE and num_batches >= 2 * per_shell:
        sums = _running_total(longest_first[left])
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


def _best_number(longest_first: Durations, num_batches: int, batch_duration: Seconds) -> int:
    """The number of batches that keeps totals nearest to the target, for the last band.

    `num_batches` is right on average, but with utterances of nine tenths of the target it would give every ninth batch
    two of them. Batches of one size, the next smaller or the next larger, may then be nearer.
    """
    size = len(longest_first) // num_batches
    choices = sorted({num_batches, len(longest_first) // size, max(1, len(longest_first) // (size + 1))})

    def distance(choice: int) -> float:
        _, totals = _deal(longest_first, choice, 0.0, np.random.default_rng(0))
        return _distance(totals, batch_duration)

    return min(choices, key=distance)


def _deal(
    longest_first: Durations, num_batches: int, blur: Seconds, rng: np.random.Generator
) -> tuple[Batches, Durations]:
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
    return Batches(utterances[real], _running_total(real.sum(axis=1))), totals


def _best_fit_slots(longest_first: Durations, batch_duration: Seconds) -> Batches:
    """Batches of places in the order of lengths, by best fit: each, longest first, where the least room is left.

    Utterances of similar length change places among these slots from pass to pass. Of many utterances, every n-th is
    packed, and its neighbors take the like of its slots, so that the cost stays bounded.
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
    sample = Batches(np.concatenate(batches), _running_total([len(batch) for batch in batches]))
    parts = []
    for shift in range(step):
        places = sample.indices * step + shift
        there = places < len(longest_first)
        sizes = np.add.reduceat(there, sample.offsets[:-1])
        parts.append(Batches(places[there], _running_total(sizes[sizes > 0])))
    return Batches.join(parts)


def _totals(batches: Batches, durations: Durations) -> Durations:
    return np.add.reduceat(durations[batches.indices], batches.offsets[:-1])


def _distance(totals: Durations, batch_duration: Seconds) -> Seconds:
    return float(np.abs(totals - batch_duration).mean())


def _running_total(values: npt.ArrayLike) -> npt.NDArray:
    return np.concatenate([[0], np.cumsum(values)])
