"""Bands, shells and dealing: the steps of `packing`, as pure functions of durations sorted from long to short.

k utterances fill a batch exactly when their mean is target / k. So the utterances are cut into *bands*, each with the
mean target / k for some k. Each band is split into *shells*: the longest utterances together with those that make up
for them, so that long utterances share batches and cost less padding. A shell of k * m utterances is *dealt* into m
batches like k rows of cards. A row holds utterances of nearly one length and gives one to each batch, the longest to
the batch that is emptiest without it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .packed_batches import Durations, Indices, PackedBatches, Seconds, running_total

# A band has at least this many batches: utterances dealt to a single batch have nothing to change places with.
MIN_BAND = 2

# Shells save padding where a batch has few utterances. Of many and so short ones, lengths differ little within a band.
MAX_SHELLED_SIZE = 8
NUM_SHELLS = 4
MIN_SHELL = 8  # batches, so that there is something to deal

# Rows dealt by the totals of the batches; any others stay as shuffled. More of them would change nothing but the time.
MAX_ROWS_MATCHED = 8


def bands(longest_first: Durations, batch_duration: Seconds) -> Iterator[tuple[int, int, int]]:
    """Cuts utterances into bands, and yields (start, stop, number of batches) of each.

    The batches of a band have one size k, so the band must sum to the number of its batches times the target. Its first
    utterances are longer than target / k, those after them shorter, and it ends where the two balance. What is left
    when no such end comes is the last band, whose batches may differ in size.
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
