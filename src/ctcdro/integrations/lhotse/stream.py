"""Length-matched batches from a stream of cuts, such as a lazy CutSet or Shar."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import torch
from lhotse.cut import Cut
from lhotse.shar.readers.lazy import LazySharIterator

from ...sampling.batch_arrays import Seconds
from ...sampling.streaming import StreamBatches, StreamPosition
from .base import GroupOf, ResumableCutSampler, language_of

logger = logging.getLogger(__name__)


class LengthMatchedStreamSampler(ResumableCutSampler):
    """CutSets of one group each, with total durations close to `batch_duration`, from a stream of any length.

    Every cut occurs exactly once per epoch. Groups take turns: every round has one batch per group, in the same order.
    A group with 1/n of the audio of the largest has a batch in every n-th round. While the buffer has only a few
    batches of a group, rounds skip that group, so memory is bounded for any stream.

    For equal shares of unequal groups, mix repeated streams: `CutSet.mux(*(cuts.repeat() for cuts in cuts_of_groups))`.

    Args:
        cuts: a lazy CutSet, or another iterable of cuts. Each iteration of an epoch must yield the same cuts.
        group_names: group names, ordered by group number; a cut of another group is an error.
        batch_duration: seconds of speech per batch, summed over its cuts.
        buffer_size: maximum number of cuts in the buffer. More cuts mean better matches, less padding and better
            shuffling. With Shar, buffered cuts include their audio.
        group_of, seed, rank, world_size: as for `LengthMatchedCutSampler`. Each rank reads the whole stream, as with
            lhotse's samplers.

    Example:
        >>> from lhotse import CutSet
        >>> from lhotse.testing.dummies import dummy_cut
        >>> cuts = CutSet.from_cuts(dummy_cut(number, duration=1.0 + number % 5) for number in range(60))
        >>> sampler = LengthMatchedStreamSampler(cuts, ["pol"], batch_duration=20.0, group_of=lambda cut: "pol")
        >>> [sum(cut.duration for cut in batch) for batch in sampler]
        [20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0]
    """

    def __init__(
        self,
        cuts: Iterable[Cut],
        group_names: Sequence[str],
        batch_duration: Seconds = 50.0,
        buffer_size: int = 10_000,
        *,
        group_of: GroupOf = language_of,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if isinstance(cuts, Iterator):
            raise ValueError(
                "`cuts` must be iterable several times; an iterator or generator yields its cuts only once. Pass the "
                "CutSet itself, or an object whose `__iter__` starts over."
            )
        if isinstance(group_names, str) or not group_names or len(set(group_names)) != len(group_names):
            raise ValueError(f"`group_names` must be a list of different names; got {group_names!r}.")
        if not isinstance(buffer_size, int) or buffer_size < 1:
            raise ValueError(f"`buffer_size` must be a positive integer; got {buffer_size!r}.")
        super().__init__(batch_duration, group_of, seed, rank, world_size)
        self.cuts = cuts
        self.group_names = list(group_names)
        self.buffer_size = buffer_size
        self._rounds: StreamBatches | None = None
        self._expected = StreamPosition()

    def state_dict(self, num_taken: int | None = None) -> dict[str, Any]:
        read = self._expected if self._rounds is None or self._resume_at is not None else self._rounds.read
        return {**super().state_dict(num_taken), "read": tuple(read)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from a state: the next iteration reads up to its position, and yields the rest of the epoch.

        Other options are rejected. Another stream is rejected when the next iteration reaches the position.
        """
        super().load_state_dict(state_dict)
        self._expected = StreamPosition(*state_dict["read"])

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("seed", "group_names", "batch_duration", "buffer_size")}

    def _epoch_batches(self, start: int) -> Iterator[list[Cut]]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None and worker.num_workers > 1 and worker.id == 0 and _is_read_whole(self.cuts):
            logger.warning(
                f"Each of {worker.num_workers} workers reads the whole stream, so every cut occurs "
                f"{worker.num_workers} times. Use `CutSet.from_shar(…, split_for_dataloading=True)`, or one worker."
            )
        for source in _sources(self.cuts):
            if isinstance(source, LazySharIterator):
                source.epoch = self.epoch  # Shar counts iterations, from 0 in each new process
        cuts, seed = filter(self._filter_fn, self.cuts), (self.seed, self.epoch)
        expected = self._expected if start else StreamPosition()
        self._rounds = StreamBatches(
            cuts, self.group_names, self.group_of, self.batch_duration, self.buffer_size, seed, expected
        )
        num_batches, latest = 0, deque[list[Cut]](maxlen=self.world_size)
        for batch in self._rounds:
            num_batches += 1
            latest.append(batch)
            if num_batches > start:
                yield batch
        if num_batches > start:
            # To stay in step, some ranks repeat batches of the previous turn.
            yield from islice(cycle(latest), -(num_batches - start) % self.world_size)


def _sources(cuts: Any) -> list[Any]:
    """The sources at the bottom of a lazy CutSet, such as Shar, a file, a list, or an object of another class."""
    inner = []
    if type(cuts).__module__.startswith("lhotse.") and not isinstance(cuts, LazySharIterator):
        # Attribute names of a CutSet, lhotse 1 and lhotse 2.
        inner = [getattr(cuts, name, None) for name in ("data", "iterator", "source")]
        inner += [*getattr(cuts, "iterators", []), *getattr(cuts, "sources", [])]
    return [source for each in inner if each is not None for source in _sources(each)] or [cuts]


def _is_read_whole(cuts: Any) -> bool:
    """Whether each worker of a loader reads all cuts of a source; classes outside lhotse may split them themselves."""
    return any(
        type(source).__module__.startswith(("lhotse.", "builtins"))
        and not getattr(source, "split_for_dataloading", False)
        for source in _sources(cuts)
    )
