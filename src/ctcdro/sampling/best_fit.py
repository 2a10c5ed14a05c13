"""Packs utterances into batches by best fit, where lengths vary too little, or a few are too long, for bands."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from .batch_arrays import Durations, PackedBatches, Seconds, mean_distance, running_total

BEST_FIT_SAMPLE = 4096
SLOT_BLUR = 0.01  # relative noise on lengths, so that similar utterances swap slots


class BestFit:
    """Batches of positions in the order of lengths. Utterances of similar length swap slots from pass to pass."""

    def __init__(self, longest_first: Durations, batch_duration: Seconds) -> None:
        self._slots = best_fit_slots(longest_first, batch_duration)

    @property
    def num_batches(self) -> int:
        return len(self._slots)

    def distance(self, longest_first: Durations, batch_duration: Seconds) -> Seconds:
        """Mean distance of the totals from the target."""
        return mean_distance(self._slots.totals(longest_first), batch_duration)

    def pack(self, longest_first: Durations, rng: np.random.Generator) -> PackedBatches:
        blurred = longest_first * rng.uniform(1 - SLOT_BLUR, 1 + SLOT_BLUR, len(longest_first))
        return PackedBatches(np.argsort(-blurred)[self._slots.indices], self._slots.offsets)


def best_fit_slots(longest_first: Durations, batch_duration: Seconds) -> PackedBatches:
    """Batches of positions in the order of lengths, by best fit: longest first, into the fullest batch with room.

    To bound the cost for many utterances, only every n-th is packed, and its neighbors take the same slots of further
    batches.
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
