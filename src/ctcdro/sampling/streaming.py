"""Batches of one group and one duration from a stream of any length, in bounded memory.

Where a corpus is too large to be listed, `packing` cannot see all of a group at once; so a buffer is held, and each
batch is chosen among what is in it. A *cut* is whatever has an `id` and a `duration` in seconds, as the cuts of lhotse.
"""

from __future__ import annotations

import logging
import math
import random
import zlib
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from .packing import Packer, Seconds

logger = logging.getLogger(__name__)


class Cut(Protocol):
    """A piece of a recording."""

    @property
    def id(self) -> str: ...

    @property
    def duration(self) -> Seconds: ...


GroupOf: TypeAlias = Callable[[Cut], str]

# A group gives a batch when it has this many of them in the buffer: one has to be chosen among several to fit.
MIN_CHOICE = 3

# A batch is chosen among cuts that would make this many.
HAND = 20

# Cuts are tried, the nearest in length first, until a batch is this near to the target, as a share of it.
NEAR_ENOUGH = 0.004

# Durations are counted in steps of this share of the target where sums of them are looked for.
STEP = 1 / 2000

# Groups whose shares of the stream differ by less than this factor come equally often.
ALIKE = 1.25


def known_group(name: str, cut: Cut, group_names: Iterable[str]) -> str:
    if name not in group_names:
        raise ValueError(
            f"`group_names` has no {name!r}, the group of cut {cut.id!r} (it has: {', '.join(group_names)}). Add it, "
            "or leave these cuts out."
        )
    return name


class Read(NamedTuple):
    """How much of a stream was read, and a checksum of the ids of these cuts."""

    num_cuts: int = 0
    checksum: int = 0


class Held(NamedTuple):
    """A cut in the buffer; sorts by duration, and never by the cut."""

    duration: Seconds
    number: int
    cut: Cut


class Rounds:
    """One pass over a stream: reads ahead until the buffer is full, and lets the groups take turns.

    The buffer is filled up after each batch, so that reading is spread as evenly as the batches are.
    """

    def __init__(
        self,
        cuts: Iterator[Cut],
        groups: dict[str, Group],
        group_of: GroupOf,
        batch_duration: Seconds,
        buffer_size: int,
        seed: Sequence[int],
        expected: Read | None,
    ) -> None:
        self.read = Read()
        self._cuts = cuts
        self._groups = groups
        self._group_of = group_of
        self._batch_duration = batch_duration
        self._buffer_size = buffer_size
        self._rng = random.Random(repr(seed))  # for single numbers several times as fast as that of numpy
        self._packing_rng = np.random.default_rng(seed)
        self._expected = expected
        self._num_held = 0
        self._has_ended = False
        self._now = 0.0  # in rounds
        self._has_warned = False

    def __iter__(self) -> Iterator[list[Cut]]:
        self._fill()
        while self._num_held:
            for group in self._next_round():
                batch = group.take(self._batch_duration, self._rng)
                self._num_held -= len(batch)
                yield batch
                self._fill()

    def _fill(self) -> None:
        while self._num_held < self._buffer_size and not self._has_ended:
            cut = next(self._cuts, None)
            if cut is None:
                self._end()
                return
            self._check_and_count(cut)
            group = self._groups[known_group(self._group_of(cut), cut, self._groups)]
            group.add(Held(cut.duration, self.read.num_cuts, cut))
            self._num_held += 1
            if self.read.num_cuts % self._buffer_size == 0:
                for each in self._groups.values():
                    each.recent /= 2  # the shares of what was read lately

    def _check_and_count(self, cut: Cut) -> None:
        if not cut.duration > 0:
            raise ValueError(f"`cuts`: cut {cut.id!r} has a duration of {cut.duration} s. Leave it out with `filter`.")
        self.read = Read(self.read.num_cuts + 1, zlib.crc32(cut.id.encode(), self.read.checksum))
        if self._expected is not None and self.read.num_cuts == self._expected.num_cuts != 0:
            self._check_same(self.read)

    def _check_same(self, read: Read) -> None:
        if read != self._expected:
            assert self._expected is not None
            raise ValueError(
                f"`cuts`: the first {self._expected.num_cuts:,} cuts of this stream are not those that were read when "
                "the state was saved, so that some would be missed or come twice. Give it the same stream, in the same "
                "order; a lazy `shuffle` needs an `rng` of its own, made anew for each run."
            )

    def _end(self) -> None:
        self._has_ended = True
        if self._expected is not None and self.read.num_cuts < self._expected.num_cuts:
            self._check_same(self.read)
        for group in self._groups.values():
            group.pack(self._batch_duration, self._packing_rng)
        absent = [name for name, group in self._groups.items() if not group.was_seen]
        if absent and self.read.num_cuts:
            logger.warning(
                f"`group_names` has groups that were not in the stream: {', '.join(absent)}; weights wait for them and "
                "are not updated. Leave them out, if they never come."
            )

    def _next_round(self) -> list[Group]:
        ready = [group for group in self._groups.values() if group.is_ready(self._batch_duration)]
        if not ready:
            fullest = max(self._groups.values(), key=lambda group: group.seconds)
            self._warn_of_small_buffer()
            return [fullest]
        most = max(group.recent for group in self._groups.values())
        next_turns = [group.latest_turn + _period(most / group.recent) for group in ready]
        self._now = max(self._now + 1, min(next_turns))
        due = []
        for group, turn in zip(ready, next_turns, strict=True):
            if turn <= self._now:
                # Counted from when it was due, so that the average is right; but not what it has missed long ago.
                group.latest_turn = max(turn, self._now - 1)
                due.append(group)
        self._rng.shuffle(due)
        return due

    def _warn_of_small_buffer(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"`buffer_size` of {self._buffer_size:,} cuts does not hold {MIN_CHOICE} batches of any group, so that "
                f"batches may be far from {self._batch_duration:g} s. Raise it. Or are durations and `batch_duration` "
                "not both in seconds?"
            )


def _period(times_as_seldom: float) -> float:
    """Every how many rounds a group has a turn."""
    return times_as_seldom if times_as_seldom > ALIKE else 1.0


class Group:
    """The cuts of one group in the buffer: a heap without order, and a hand of cards sorted by length."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.recent = 0.0  # seconds that the stream brought lately
        self.latest_turn = -math.inf  # in rounds
        self.was_seen = False
        self._heap: list[Held] = []
        self._hand: list[Held] = []
        self._seconds_in_hand = 0.0
        self._packed: list[list[Cut]] | None = None  # once the stream has ended

    def add(self, held: Held) -> None:
        self._heap.append(held)
        self.seconds += held.duration
        self.recent += held.duration
        self.was_seen = True

    def is_ready(self, batch_duration: Seconds) -> bool:
        if self._packed is not None:
            return bool(self._packed)
        return self.seconds >= MIN_CHOICE * batch_duration

    def take(self, batch_duration: Seconds, rng: random.Random) -> list[Cut]:
        if self._packed is not None:
            return self._packed.pop()
        self._draw(HAND * batch_duration, rng)
        chosen = choose([held.duration for held in self._hand], rng.randrange(len(self._hand)), batch_duration)
        batch = [self._hand[place] for place in chosen]
        for place in sorted(chosen, reverse=True):
            del self._hand[place]
        seconds = sum(held.duration for held in batch)
        self.seconds -= seconds
        self._seconds_in_hand -= seconds
        return [held.cut for held in batch]

    def _draw(self, seconds: Seconds, rng: random.Random) -> None:
        heap = self._heap
        while heap and self._seconds_in_hand < seconds:
            place = rng.randrange(len(heap))
            heap[place], heap[-1] = heap[-1], heap[place]
            drawn = heap.pop()
            insort(self._hand, drawn)
            self._seconds_in_hand += drawn.duration

    def pack(self, batch_duration: Seconds, rng: np.random.Generator) -> None:
        """The stream has ended: what is left is packed all together, as nothing will come to make up for bad fits."""
        self.recent = max(self.seconds, 1e-9)
        held = self._heap + self._hand
        self._heap, self._hand, self._packed = [], [], []
        if held:
            packer = Packer(np.array([each.duration for each in held]), batch_duration)
            self._packed = [[held[place].cut for place in places] for places in packer.pack(rng)]


def choose(durations: Sequence[Seconds], first: int, batch_duration: Seconds) -> list[int]:
    """Places of the utterances that make a batch with the one at `first`: those nearest to it in length that fill it.

    Which sums can be made with the utterances tried so far is kept as the bits of a whole number: one more utterance
    shifts them by its duration. So all subsets are looked at, for the price of a few operations an utterance.

    Args:
        durations: seconds, sorted.
        first: place of one that must be in the batch.
        batch_duration: the target, in seconds.

    Example:
        >>> choose([2.0, 3.0, 4.0, 5.0, 6.0], first=1, batch_duration=10.0)
        [1, 0, 3]
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
    """Place of the bit nearest to `target`; the lower of two."""
    below = (bits & ((1 << (target + 1)) - 1)).bit_length() - 1
    above = bits >> (target + 1)
    if not above:
        return below
    first_above = target + (above & -above).bit_length()
    return below if below >= 0 and target - below <= first_above - target else first_above
