"""Packs the utterances of one group into batches of equal total duration.

Every utterance is in exactly one batch. Totals are close to the target, and the utterances of a batch have similar
lengths. The same durations and the same generator give the same batches; another generator gives other batches, but the
same number. The cost is that of a few sorts, O(n log n).

Large groups are packed by composition, which needs the least padding. Bands pack small groups, and what is left over of
large ones. Bands require durations that vary around their mean. If they do not (most utterances have one length, or
there are a few long ones among many short), best fit is closer to the target and replaces them.
"""

from __future__ import annotations

import numpy as np

from .bands import Bands
from .batch_arrays import Durations, Indices, PackedBatches, Seconds, running_total
from .best_fit import BestFit
from .compositions import Composer

# Groups are packed by composition if they have audio for this many batches, and compositions leave over at most this
# fraction of it. Bands are closer to the target otherwise.
MIN_COMPOSED = 300
MAX_LEFT_OVER = 0.05

# If bands bring totals this close to the target on average, as a fraction of it, best fit is not tried.
BANDS_SUFFICE = 0.006

# Two sorts and their bookkeeping are faster than a stable one from here on.
MANY_DURATIONS = 5_000


class Packer:
    """Packs utterances into batches whose durations sum to nearly `batch_duration`, differently at each call.

    The number of batches is the one whose totals are closest to the target. An utterance longer than the target forms
    its own batch.
    """

    def __init__(self, durations: Durations, batch_duration: Seconds) -> None:
        self._composer: Composer | None = None
        order = longest_first_order(durations)
        self.only_batch: Indices | None = None
        """All numbers, if they make one batch, which is then the same at each call."""
        if durations.sum() <= batch_duration:
            self.num_batches, self.only_batch = 1, order
            return
        longest_first = durations[order]
        num_oversize = int(np.searchsorted(-longest_first, -batch_duration, side="left"))
        self._oversize, self._rest = order[:num_oversize], order[num_oversize:]
        self._longest_first = left = longest_first[num_oversize:]
        if left.sum() >= MIN_COMPOSED * batch_duration:
            composer = Composer(left, batch_duration)
            if left[composer.left_over].sum() <= MAX_LEFT_OVER * left.sum():
                self._composer, left = composer, left[composer.left_over]
        self._others = bands_or_best_fit(left, batch_duration) if len(left) else None
        self.num_batches = num_oversize + sum(part.num_batches for part in (self._composer, self._others) if part)
        if self.num_batches == 1 and not isinstance(self._others, BestFit):
            self.only_batch = order

    @property
    def packs_by_composition(self) -> bool:
        return self._composer is not None

    def pack(self, rng: np.random.Generator) -> PackedBatches:
        """Batches, in random order, that contain each of the numbers 0 to n - 1 once."""
        if self.only_batch is not None:
            return PackedBatches(self.only_batch, np.array([0, len(self.only_batch)]))
        packed = [PackedBatches(self._oversize, np.arange(len(self._oversize) + 1))]
        left = np.arange(len(self._rest))
        if self._composer:
            composed, left = self._composer.pack(self._longest_first, rng)
            packed.append(PackedBatches(self._rest[composed.indices], composed.offsets))
        if self._others:
            others = self._others.pack(self._longest_first[left], rng)
            packed.append(PackedBatches(self._rest[left[others.indices]], others.offsets))
        batches = PackedBatches.join(packed)
        return batches.take(rng.permutation(len(batches)))


def longest_first_order(durations: Durations) -> Indices:
    """`np.argsort(-durations, kind="stable")`; of many durations, by two sorts that are faster."""
    if len(durations) < MANY_DURATIONS:
        return np.argsort(-durations, kind="stable")
    order = np.argsort(-durations)
    ranks = running_total(np.diff(durations[order]) < 0)  # the same for equal durations
    return np.sort(ranks * len(order) + order) % len(order)


def bands_or_best_fit(longest_first: Durations, batch_duration: Seconds) -> Bands | BestFit:
    """Bands, unless their totals are far from the target and those of best fit are closer."""
    by_bands = Bands(longest_first, batch_duration)
    distance = by_bands.distance(longest_first, batch_duration)
    if distance > BANDS_SUFFICE * batch_duration:
        by_best_fit = BestFit(longest_first, batch_duration)
        if by_best_fit.distance(longest_first, batch_duration) < distance:
            return by_best_fit
    return by_bands
