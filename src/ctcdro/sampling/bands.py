"""Packs utterances into batches of equal total duration: bands of similar lengths, dealt like cards.

k utterances fill a batch exactly if their mean is target / k. So the utterances, sorted from long to short, are cut
into *bands*, each with the mean target / k for some k. Each band is split into *shells*: the longest utterances
together with short ones that compensate for them, so that long utterances share batches and padding is small. A shell
of k * m utterances is *dealt* into m batches like k rows of cards. The utterances of a row have nearly the same length.
Each batch gets one, and the emptiest batch gets the longest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .batch_arrays import Durations, Indices, PackedBatches, Seconds, mean_distance, running_total

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


class Bands:
    """Batches of positions in the order of lengths; every `pack` deals others, but the same number."""

    def __init__(self, longest_first: Durations, batch_duration: Seconds) -> None:
        self._blur = BLUR * batch_duration
        self._shells: list[tuple[Indices, int]] = []
        if longest_first.sum() <= batch_duration:
            self._shells = [(np.arange(len(longest_first)), 1)]
            return
        for start, stop, num_batches in bands(longest_first, batch_duration):
            if stop == len(longest_first):
                num_batches = best_number(longest_first[start:], num_batches, batch_duration)
            for places, num in shells(longest_first[start:stop], num_batches):
                self._shells.append((start + places, num))

    @property
    def num_batches(self) -> int:
        return sum(num for _, num in self._shells)

    def distance(self, longest_first: Durations, batch_duration: Seconds) -> Seconds:
        """Mean distance of the totals from the target."""
        rng = np.random.default_rng(0)
        totals = [deal(longest_first[places], num, 0.0, rng)[1] for places, num in self._shells]
        return mean_distance(np.concatenate(totals), batch_duration)

    def pack(self, longest_first: Durations, rng: np.random.Generator) -> PackedBatches:
        packed = []
        for places, num_batches in self._shells:
            dealt, _ = deal(longest_first[places], num_batches, self._blur, rng)
            packed.append(PackedBatches(places[dealt.indices], dealt.offsets))
        return PackedBatches.join(packed)


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
