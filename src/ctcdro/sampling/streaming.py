"""Batches of one group and equal duration from a stream of any length, in bounded memory.

`packing` needs all utterances of a group at once. This module chooses each batch from a buffer. A *cut* is any object
with an `id` and a `duration` in seconds, such as a lhotse cut.
"""

from __future__ import annotations

import logging
import math
import random
import zlib
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from .batch_arrays import Seconds
from .packing import Packer
from .subset_sum import choose

logger = logging.getLogger(__name__)


class Cut(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def duration(self) -> Seconds: ...


GroupOf: TypeAlias = Callable[[Cut], str]

# A group yields a batch if the buffer has audio for this many of its batches, so that there is a choice.
MIN_CHOICE = 3
HAND = 20  # a batch is chosen among cuts for this many batches

# Groups whose shares of the stream differ by less than this factor have the same number of turns.
ALIKE = 1.25


def known_group(name: str, cut: Cut, group_names: Iterable[str]) -> str:
    if name not in group_names:
        raise ValueError(
            f"Cut {cut.id!r} has group {name!r}, which is not in `group_names` ({', '.join(group_names)}). Add the "
            "group, or exclude these cuts."
        )
    return name


class StreamPosition(NamedTuple):
    """The number of cuts read from a stream, and a checksum of their ids."""

    num_cuts: int = 0
    checksum: int = 0


class BufferedCut(NamedTuple):
    """A cut in the buffer. Sorts by duration, never by the cut itself."""

    duration: Seconds
    number: int
    cut: Cut


@dataclass
class StreamBatches:
    """The batches of one pass over a stream. Groups take turns, and the buffer is refilled after each batch."""

    cuts: Iterator[Cut]
    group_names: Sequence[str]
    group_of: GroupOf
    batch_duration: Seconds
    buffer_size: int
    seed: Sequence[int]
    expected: StreamPosition
    """Position of the pass to resume; the stream must have the same cuts up to it."""

    def __post_init__(self) -> None:
        self.read = StreamPosition()
        self._rng = random.Random(repr(self.seed))  # for single numbers, several times as fast as numpy
        self._groups = {name: GroupBuffer() for name in self.group_names}
        self._turns = self._rng.sample(list(self._groups.values()), len(self._groups))
        self._packing_rng = np.random.default_rng(self.seed)
        self._num_held = 0
        self._has_ended = False
        self._now = 0.0  # in rounds
        self._has_warned = False

    def __iter__(self) -> Iterator[list[Cut]]:
        self._fill()
        while self._num_held:
            for group in self._next_round():
                batch = group.take(self.batch_duration, self._rng)
                self._num_held -= len(batch)
                yield batch
                self._fill()

    def _fill(self) -> None:
        while self._num_held < self.buffer_size and not self._has_ended:
            cut = next(self.cuts, None)
            if cut is None:
                self._end()
                return
            self._check_and_count(cut)
            group = self._groups[known_group(self.group_of(cut), cut, self._groups)]
            group.add(BufferedCut(cut.duration, self.read.num_cuts, cut))
            self._num_held += 1
            if self.read.num_cuts % self.buffer_size == 0:
                for each in self._groups.values():
                    each.recent /= 2  # so that shares reflect recent cuts

    def _check_and_count(self, cut: Cut) -> None:
        if not cut.duration > 0:
            raise ValueError(f"`cuts`: cut {cut.id!r} has a duration of {cut.duration} s. Exclude it with `filter`.")
        self.read = StreamPosition(self.read.num_cuts + 1, zlib.crc32(cut.id.encode(), self.read.checksum))
        if self.read.num_cuts == self.expected.num_cuts:
            self._check_same()

    def _check_same(self) -> None:
        if self.read != self.expected:
            raise ValueError(
                f"`cuts`: the first {self.expected.num_cuts:,} cuts of this stream differ from those before the state "
                "was saved, so cuts would be missed or repeated. Use the same stream in the same order; a lazy "
                "`shuffle` needs its own `rng`, created in each run."
            )

    def _end(self) -> None:
        self._has_ended = True
        if self.read.num_cuts < self.expected.num_cuts:
            self._check_same()
        for group in self._groups.values():
            group.pack(self.batch_duration, self._packing_rng)
        absent = [name for name, group in self._groups.items() if not group.was_seen]
        if absent and self.read.num_cuts:
            logger.warning(
                f"`group_names` has groups that were not in the stream: {', '.join(absent)}. The weights are not "
                "updated until every group has occurred. Remove these groups if they never occur."
            )

    def _next_round(self) -> list[GroupBuffer]:
        ready = [group for group in self._turns if group.is_ready(self.batch_duration)]
        if not ready:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    f"`buffer_size` of {self.buffer_size:,} cuts is less than {MIN_CHOICE} batches of any group, so "
                    f"batches may be far from {self.batch_duration:g} s. Raise it, and check that durations and "
                    "`batch_duration` are both in seconds."
                )
            return [max(self._groups.values(), key=lambda group: group.seconds)]
        most = max(group.recent for group in self._groups.values())
        periods = [most / group.recent for group in ready]  # rounds between two turns of a group
        periods = [period if period > ALIKE else 1.0 for period in periods]
        next_turns = [group.latest_turn + period for group, period in zip(ready, periods, strict=True)]
        self._now = max(self._now + 1, min(next_turns))
        due = []
        for group, turn in zip(ready, next_turns, strict=True):
            if turn <= self._now:
                # Counted from the turn that was due, so that the average is right, but without turns missed long ago.
                group.latest_turn = max(turn, self._now - 1)
                due.append(group)
        return due


class GroupBuffer:
    """The buffered cuts of one group: an unsorted pile, and a sorted hand from which batches are chosen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.recent = 0.0  # seconds of recent cuts
        self.latest_turn = -math.inf  # in rounds
        self.was_seen = False
        self._heap: list[BufferedCut] = []
        self._hand: list[BufferedCut] = []
        self._seconds_in_hand = 0.0
        self._packed: list[list[Cut]] | None = None  # once the stream has ended

    def add(self, cut: BufferedCut) -> None:
        self._heap.append(cut)
        self.seconds += cut.duration
        self.recent += cut.duration
        self.was_seen = True

    def is_ready(self, batch_duration: Seconds) -> bool:
        return self.seconds >= MIN_CHOICE * batch_duration if self._packed is None else bool(self._packed)

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
        """Packs the remaining cuts after the end of the stream."""
        self.recent = max(self.seconds, 1e-9)
        held = self._heap + self._hand
        self._heap, self._hand, self._packed = [], [], []
        if held:
            packer = Packer(np.array([each.duration for each in held]), batch_duration)
            self._packed = [[held[place].cut for place in places] for places in packer.pack(rng)]
