"""Packing: the utterances of one group into batches of one total duration.

Guarantees:

* every utterance is in exactly one batch;
* totals lie near the target, and the utterances of a batch have similar lengths. The best combination of utterances is
  not searched for;
* the same durations and the same generator give the same batches. Another generator gives others, but equally many;
* the cost is that of a few sorts, O(n log n).

`bands` explains how. Bands need durations that vary about their middle. Where they do not (most utterances of one
length, or a few long ones among many short), batches of one size cannot match, and best fit, which is closer, takes
their place.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from .bands import bands, best_number, deal, mean_distance, shells
from .packed_batches import Durations, Indices, PackedBatches, Seconds, running_total

# Which batch is the emptiest is judged by totals blurred by this share of the target. Without it a shell with two
# utterances per batch has one answer only, longest with shortest, and every epoch would see the same pairs.
BLUR = 0.004

# Where bands bring totals this near to the target on average, as a share of it, nothing else is tried.
BANDS_SUFFICE = 0.006
BEST_FIT_SAMPLE = 4096
SLOT_BLUR = 0.01  # which utterances are similar enough to change places among the slots of best fit


class Packer:
    """Packs utterances into batches whose durations sum to nearly `batch_duration`, different ones at each call.

    The number of batches is chosen here, as the one with totals nearest to the target, and is the same at every call.
    An utterance longer than the target forms its own batch.

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
        self._slots: PackedBatches | None = None
        if len(self._rest):
            self._choose_method(batch_duration)

    def _choose_method(self, batch_duration: Seconds) -> None:
        """Chooses bands, unless they are far from the target and best fit is nearer."""
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

    Utterances of similar length change places among these slots from pass to pass. Of many utterances, every n-th is
    packed, and its neighbors take the same slots of further batches, so that the cost stays bounded.
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
