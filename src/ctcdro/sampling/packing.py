"""Packs the utterances of one group into batches of equal total duration.

Every utterance is in exactly one batch. Totals are close to the target, and the utterances of a batch have similar
lengths. The same durations and the same generator give the same batches; another generator gives other batches, but the
same number. The cost is that of a few sorts, O(n log n).

k utterances fill a batch exactly if their mean is target / k. So the utterances, sorted from long to short, are cut
into *bands*, each with the mean target / k for some k. Each band is split into *shells*: the longest utterances
together with short ones that compensate for them, so that long utterances share batches and padding is small. A shell
of k * m utterances is *dealt* into m batches like k rows of cards. The utterances of a row have nearly the same length.
Each batch gets one, and the emptiest batch gets the longest.

Bands require durations that vary around their mean. If they do not (most utterances have one length, or there are a few
long ones among many short), best fit is closer to the target and replaces them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from .batch_arrays import Durations, Indices, PackedBatches, Seconds, running_total

# A band has at least this many batches: with a single batch, there is nothing to exchange.
MIN_BAND = 2

# Shells save padding if batches have few utterances. If they have many, lengths differ little within a band.
MAX_SHELLED_SIZE = 8
NUM_SHELLS = 4
MIN_SHELL = 8  # batches, so that there is something to deal

# Rows to deal by the totals of the batches; the others stay shuffled. More rows would only take more time.
MAX_ROWS_MATCHED = 8

# Noise on the totals that decide which batch is the emptiest, as a fraction of the target. Without noise, a shell with
# two utterances per batch always pairs the longest with the shortest, and every epoch would have the same pairs.
BLUR = 0.004

# If bands bring totals this close to the target on average, as a fraction of it, best fit is not tried.
BANDS_SUFFICE = 0.006
BEST_FIT_SAMPLE = 4096
SLOT_BLUR = 0.01  # relative noise on lengths, so that similar utterances swap slots of best fit


class Packer:
    """Packs utterances into batches whose durations sum to nearly `batch_duration`, differently at each call.

    The number of batches is the one whose totals are closest to the target. An utterance longer than the target forms
    its own batch.
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
        if self._longest_first.sum() <= batch_duration:
            self._shells = [(np.arange(len(self._rest)), 1)]
            return
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
        """Batches, in random order, that contain each of the numbers 0 to n - 1 once."""
        if self._slots is None and self.num_batches == 1:
            everything = np.concatenate([self._oversize, self._rest])
            return PackedBatches(everything, np.array([0, len(everything)]))
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
    """Batches of positions in the order of lengths, by best fit: longest first, into the fullest batch with room.

    To bound the cost for many utterances, only every n-th is packed, and its neighbors take the same slots of further
    batches. Utterances of similar length swap slots from pass to pass.
    """
    step = -(-len(longest_first) // BEST_FIT_SAMPLE)
    batches: list[list[int]] = []
    rooms: list[tuple[float, int]] = []  # room left in each batch, and its number; smallest first
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
    if step == 1:
        return sample
    parts = []
    for shift in range(step):
        places = sample.indices * step + shift
        exists = places < len(longest_first)
        sizes = np.add.reduceat(exists, sample.offsets[:-1])
        parts.append(PackedBatches(places[exists], running_total(sizes[sizes > 0])))
    return PackedBatches.join(parts)


def bands(longest_first: Durations, batch_duration: Seconds) -> Iterator[tuple[int, int, int]]:
    """Cuts utterances into bands, and yields (start, stop, number of batches) of each.

    A band starts with utterances longer than target / k, continues with shorter ones, and ends where the two balance.
    The last band takes all remaining utterances; its batches may differ in size.
    """
    start, end = 0, len(longest_first)
    sums = running_total(longest_first)
    num_left = round(sums[end] / batch_duration)
    size = 1
    while num_left >= 2 * MIN_BAND:
        # The surplus or deficit of earlier bands is spread over the remaining batches.
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
            size += 1  # more, and therefore shorter, utterances per batch make the band longer
            continue
        if num_left - num_batches < MIN_BAND or start + num_batches * size >= end:
            break
        yield start, start + num_batches * size, num_batches
        start += num_batches * size
        num_left -= num_batches
    yield start, end, min(max(1, num_left), end - start)


def shells(longest_first: Durations, num_batches: int) -> Iterator[tuple[Indices, int]]:
    """Splits a band into shells, and yields (positions in the band, number of batches) of each.

    A shell has the longest remaining utterances, two or more per batch, and shorter ones that bring its mean to that of
    the band. For example, one batch of 20, 20 and 10 seconds needs less padding than two of 20, 15 and 15.
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
            windows = sums[long + short :] - sums[long : len(sums) - short]  # sums of `short` in a row, descending
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
    """The number of batches for the last band whose totals are closest to the target.

    `num_batches` is right on average, but if all utterances have nine tenths of the target, it would put two of them
    into every ninth batch. Batches of one size, the next smaller or the next larger, may then be closer.
    """
    size = len(longest_first) // num_batches
    choices = sorted({num_batches, len(longest_first) // size, max(1, len(longest_first) // (size + 1))})
    if len(choices) == 1:
        return num_batches

    def distance(choice: int) -> float:
        _, totals = deal(longest_first, choice, 0.0, np.random.default_rng(0))
        return mean_distance(totals, batch_duration)

    return min(choices, key=distance)


def deal(
    longest_first: Durations, num_batches: int, blur: Seconds, rng: np.random.Generator
) -> tuple[PackedBatches, Durations]:
    """Deals utterances into batches like rows of cards; returns the batches and their totals."""
    num_rows = -(-len(longest_first) // num_batches)
    rows = np.zeros((num_rows, num_batches))  # the last row may have fewer utterances than batches
    rows.flat[: len(longest_first)] = longest_first
    in_order = np.arange(num_batches)
    starts = num_batches * np.arange(num_rows)[:, None]
    places = rng.permuted(in_order + 0 * starts, axis=1)
    held = rows.ravel()[places + starts]
    totals = held.sum(axis=0)
    for row in rng.permutation(num_rows)[:MAX_ROWS_MATCHED]:
        totals -= held[row]
        emptiest_first = (totals + blur * rng.standard_normal(num_batches)).argsort()
        places[row, emptiest_first] = in_order
        held[row, emptiest_first] = rows[row]
        totals += held[row]
    utterances = (places + starts).T
    real = utterances < len(longest_first)
    return PackedBatches(utterances[real], running_total(real.sum(axis=1))), totals


def mean_distance(totals: Durations, batch_duration: Seconds) -> Seconds:
    return float(np.abs(totals - batch_duration).mean())
