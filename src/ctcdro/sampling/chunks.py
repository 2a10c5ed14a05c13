"""Length-matched batches from any number of utterances, in bounded memory: groups are packed chunk by chunk.

`LengthMatchedBatchSampler` keeps the duration of every utterance and the plan of an epoch in memory. Here, a *chunk* of
up to `chunk_size` consecutive utterances of a group is read and packed at a time. A pass over a group visits its chunks
in random order. Any batch can be planned without those before it, so resuming costs nothing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..runtime.arguments import is_whole_number
from .batch_arrays import Durations, Indices, PackedBatches, Seconds, running_total
from .packing import Packer
from .planned_rounds import PassLimit, PlannedInRounds, Weighted
from .samplers import MAX_REPEATS, batches_of_epoch, check_group_names, check_matching_options, num_copies


class GroupedDurations(Protocol):
    """Durations of utterances that are numbered by group: first all of group 0, then all of group 1."""

    @property
    def group_sizes(self) -> Sequence[int]:
        """(G,) utterances of each group."""
        ...

    @property
    def digest(self) -> str:
        """Changes with the data."""
        ...

    def durations_between(self, start: int, stop: int) -> Durations: ...


class PackedChunk(NamedTuple):
    """The batches of a chunk in one pass."""

    key: tuple[int, int]
    """Number of the pass and of the chunk."""
    batches: PackedBatches


@dataclass(frozen=True)
class GroupChunks:
    """The chunks of one group."""

    bounds: Indices
    """(C + 1,) first utterance of each chunk, and the end of the last."""
    copies: int
    """Copies of a group that is too small for a batch."""
    num_batches: Indices
    """(C,) batches of each chunk."""

    def order(self, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """The order of chunks in a pass, and the first batch of each, in that order; then the end of the pass."""
        chunks = rng.permutation(len(self.num_batches))
        return chunks, running_total(self.num_batches[chunks])


class ChunkedBatchSampler(PlannedInRounds):
    """Like `LengthMatchedBatchSampler`, or `AdaptiveBatchSampler` with an objective, in bounded memory.

    Batches are as close to `batch_duration` as those of a corpus with `chunk_size` utterances per group. Utterances
    that are far apart in the data never share a batch, so shuffle the data once when you write them. The memory
    needed grows by 8 bytes per chunk.

    Args:
        data: durations by group, which are read again for every chunk.
        objective: its weights become shares of the batches, as with `AdaptiveBatchSampler`. None for equal weights.
        batch_duration, exponent, seed, rank, world_size, group_names: as for `LengthMatchedBatchSampler`.
        limit: as for `AdaptiveBatchSampler`.
        chunk_size: utterances of a group that are shuffled and packed together.
    """

    def __init__(
        self,
        data: GroupedDurations,
        objective: Weighted | None = None,
        batch_duration: Seconds = 50.0,
        exponent: float = 0.0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group_names: Sequence[str] | None = None,
        limit: PassLimit | None = None,
        chunk_size: int = 10_000,
    ) -> None:
        if not is_whole_number(chunk_size) or chunk_size < 1:
            raise ValueError(f"`chunk_size` must be a positive integer; got {chunk_size!r}.")
        options = check_matching_options(batch_duration, exponent) | {"seed": seed, "chunk_size": int(chunk_size)}
        if limit is not None:
            options |= {"max_passes": limit.max_passes, "total_batches": limit.total_batches}
        super().__init__((), options, rank, world_size)
        self.data = data
        self.batch_duration = float(batch_duration)
        self.group_names = check_group_names(group_names, len(data.group_sizes))
        starts = running_total(data.group_sizes)
        self._chunks = [
            self._measure(number, int(start), int(stop))
            for number, (start, stop) in enumerate(itertools.pairwise(starts))
        ]
        self.num_groups = len(self._chunks)
        self._batches_per_pass = np.array([one.num_batches.sum() / one.copies for one in self._chunks])
        self._num_batches_of = batches_of_epoch(self._batches_per_pass, exponent)
        self._orders: dict[int, tuple[int, tuple[Indices, Indices]]] = {}  # of the latest pass of each group
        self._latest: dict[int, PackedChunk] = {}
        self._set_up_rounds(objective, limit)

    @property
    def num_batches(self) -> int:
        return int(self._num_batches_of.sum())

    @cached_property
    def _settings(self) -> dict[str, Any]:
        num_utterances = sum(self.data.group_sizes)
        digest = hashlib.blake2b(self.data.digest.encode(), digest_size=4).hexdigest()
        return {"sampler": type(self).__name__, "data": f"{digest} ({num_utterances:,} utterances)", **self._options}

    def _measure(self, group: int, start: int, stop: int) -> GroupChunks:
        """Reads the durations of a group once, to count the batches of each chunk."""
        num_chunks = -(-(stop - start) // int(self._options["chunk_size"]))
        bounds = np.linspace(start, stop, num_chunks + 1).astype(np.int64)
        copies = 1
        if num_chunks == 1:
            seconds = self.data.durations_between(start, stop).sum()
            copies = 1 if self._options["exponent"] == 1 else num_copies(seconds, self.batch_duration)
            if copies > MAX_REPEATS:
                name = f"group {group}" if self.group_names is None else self.group_names[group]
                raise ValueError(
                    f"{name} has only {seconds:g} s of audio, and would be repeated over {MAX_REPEATS:,} times in a "
                    f"batch of {self.batch_duration:g} s. Remove the group, or lower `batch_duration`."
                )
        packers = (self._packer(int(first), int(last), copies) for first, last in itertools.pairwise(bounds))
        return GroupChunks(bounds, copies, np.array([packer.num_batches for packer in packers]))

    def _packer(self, start: int, stop: int, copies: int) -> Packer:
        return Packer(np.tile(self.data.durations_between(start, stop), copies), self.batch_duration)

    def _stretch(self, group: int, start: int, stop: int) -> PackedBatches:
        parts: list[PackedBatches] = []
        batches_per_pass = int(self._chunks[group].num_batches.sum())
        while start < stop:
            number, place = divmod(start, batches_per_pass)
            chunks, firsts = self._order(group, number)
            turn = int(np.searchsorted(firsts, place, side="right")) - 1
            last = min(int(firsts[turn + 1]), place + stop - start)
            batches = self._pack(group, number, int(chunks[turn]))
            parts.append(batches.take(np.arange(place - firsts[turn], last - firsts[turn])))
            start += last - place
        return PackedBatches.join(parts)

    def _order(self, group: int, number: int) -> tuple[Indices, Indices]:
        """The chunks of pass `number` over a group: see `GroupChunks.order`."""
        if self._orders.get(group, (None,))[0] != number:
            rng = np.random.default_rng([self.seed, group, number, 2])
            self._orders[group] = number, self._chunks[group].order(rng)
        return self._orders[group][1]

    def _pack(self, group: int, number: int, chunk: int) -> PackedBatches:
        """The batches of a chunk in pass `number` over its group."""
        latest = self._latest.get(group)
        if latest is None or latest.key != (number, chunk):
            of_group = self._chunks[group]
            start, stop = of_group.bounds[chunk : chunk + 2].tolist()
            rng = np.random.default_rng([self.seed, group, number, 3, chunk])
            packed = self._packer(start, stop, of_group.copies).pack(rng)
            batches = PackedBatches(start + packed.indices % (stop - start), packed.offsets)
            latest = self._latest[group] = PackedChunk((number, chunk), batches)
        return latest.batches
