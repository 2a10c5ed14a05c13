"""Subset sum: finds utterances that fill a batch together with a given one."""

from __future__ import annotations

from collections.abc import Sequence

from .batch_arrays import Seconds

# Utterances are tried, closest in length first, until a batch is this close to the target, as a fraction of it.
NEAR_ENOUGH = 0.004
STEP = 1 / 2000  # resolution of durations, as a fraction of the target


def choose(durations: Sequence[Seconds], first: int, batch_duration: Seconds) -> list[int]:
    """Chooses the utterances closest in length to the one at `first` that fill a batch together with it.

    The possible sums of the utterances tried so far are the bits of an integer; another utterance shifts them by its
    duration. This tries all subsets with a few operations per utterance. Durations must be sorted. The result starts
    with `first`.
    """
    step = STEP * batch_duration
    target, near = round(1 / STEP), round(NEAR_ENOUGH / STEP)
    low, high = target - near, 2 * target
    steps = [round(durations[first] / step)]
    places = [first]
    if steps[0] >= low:
        return places
    within = (1 << (high + 1)) - 1
    sums = [1 << steps[0]]
    left, right = first - 1, first + 1
    while left >= 0 or right < len(durations):
        if right == len(durations) or (
            left >= 0 and durations[first] - durations[left] <= durations[right] - durations[first]
        ):
            place, left = left, left - 1
        else:
            place, right = right, right + 1
        places.append(place)
        steps.append(max(1, round(durations[place] / step)))
        sums.append((sums[-1] | (sums[-1] << steps[-1])) & within)
        if (sums[-1] >> low) & ((1 << (2 * near + 1)) - 1):
            break
    remaining = _nearest_bit(sums[-1], target)
    chosen = []
    for number in range(len(places) - 1, 0, -1):
        if not (sums[number - 1] >> remaining) & 1:
            chosen.append(places[number])
            remaining -= steps[number]
    return [first, *reversed(chosen)]


def _nearest_bit(bits: int, target: int) -> int:
    """Position of the bit closest to `target`; the lower one in a tie."""
    below = (bits & ((1 << (target + 1)) - 1)).bit_length() - 1
    above = bits >> (target + 1)
    if not above:
        return below
    first_above = target + (above & -above).bit_length()
    return below if below >= 0 and target - below <= first_above - target else first_above
