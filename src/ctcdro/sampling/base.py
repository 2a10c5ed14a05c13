"""The base of all batch samplers: epochs, ranks, and a state to resume from.

The plan of an epoch is a pure function of (data, options, epoch). Ranks take turns with its batches, and all get the
same number. The state is (epoch, position), so resuming costs nothing.
"""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from ..runtime.arguments import is_whole_number
from ..runtime.ranks import rank_and_world_size
from .batch_arrays import PackedBatches

logger = logging.getLogger(__name__)


class PlannedBatchSampler(Sampler[list[int]], ABC):
    """A batch sampler that follows a plan for each epoch.

    Args:
        data: arrays that the plan depends on. A state that was saved with other data is rejected.
        options: settings that the plan depends on, including `seed`. A state with other settings is rejected.
        rank, world_size: by default those of `torch.distributed`.
    """

    def __init__(
        self, data: Sequence[npt.NDArray], options: dict[str, float], rank: int | None, world_size: int | None
    ) -> None:
        ranks = None if rank is None or world_size is None else (int(rank), int(world_size))
        if (rank, world_size) != (None, None) and (ranks is None or not 0 <= ranks[0] < ranks[1]):
            raise ValueError(f"`rank` must be from 0 to `world_size` - 1; got rank={rank}, world_size={world_size}.")
        if not is_whole_number(options["seed"]) or options["seed"] < 0:
            raise ValueError(f"`seed` must be a non-negative integer; got {options['seed']!r}.")
        self.epoch = 0
        self.seed = options["seed"] = int(options["seed"])
        self._data = data
        self._options = options
        self._rank_and_world_size = ranks
        self._start = self._num_taken = 0
        self._resume_at: int | None = None
        self._has_finished = False  # whether the current epoch is complete
        self._has_warned = False

    @property
    @abstractmethod
    def num_batches(self) -> int:
        """Batches in an epoch, over all ranks."""

    @abstractmethod
    def plan(self, epoch: int) -> PackedBatches:
        """All batches of an epoch, in order, for all ranks."""

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        return self._rank_and_world_size or rank_and_world_size()

    def __len__(self) -> int:
        """Batches in a complete epoch on this rank, even if iteration resumes in the middle of one."""
        rank, world_size = self.rank_and_world_size
        return len(shard(self.num_batches, rank, world_size))

    def __iter__(self) -> Iterator[list[int]]:
        if self._has_finished and not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"The sampler starts epoch {self.epoch} again, with the same batches. Call `set_epoch(epoch)` before "
                f"each epoch. To repeat an epoch intentionally, call `set_epoch({self.epoch})` first."
            )
        rank, world_size = self.rank_and_world_size
        batch = self._batch_getter()
        self._start, self._resume_at = self._resume_at or 0, None
        self._num_taken = 0
        numbers = shard(self.num_batches, rank, world_size, self._start)
        for number in numbers:
            self._num_taken += 1
            self._has_finished = number == numbers[-1]  # before the yield: a loop that counts batches stops there
            yield batch(number)

    def batches_of_all_ranks(self, world_size: int, start: int = 0) -> Iterator[list[int]]:
        """The batches of the epoch from number `start` on, for toolkits in which each rank goes through all of them.

        Ranks get the same number: rank r takes every `world_size`-th, from number r on. A `start` other than 0 must be
        the position of the state that was loaded.
        """
        self._resume_at = start or None
        batch = self._batch_getter()
        for number in range(start, shard(self.num_batches, 0, world_size, start).stop):
            yield batch(number)

    def _batch_getter(self) -> Callable[[int], list[int]]:
        """Called when an iteration starts; returns a function from numbers of batches (see `shard`) to batches."""
        plan = self.plan(self.epoch)
        return lambda number: plan[number % len(plan)]

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, as in `torch.utils.data.DistributedSampler`.

        Setting the current epoch keeps the position of a loaded state, so a loop can call this before every epoch.
        """
        if not is_whole_number(epoch) or epoch < 0:
            raise ValueError(f"`epoch` must be a non-negative integer; got {epoch!r}.")
        self._has_finished = False
        if epoch != self.epoch:
            self.epoch = int(epoch)
            self._start, self._num_taken, self._resume_at = 0, 0, None

    def state_dict(self, num_taken: int | None = None) -> dict[str, Any]:
        """The state for `load_state_dict`, also with another number of ranks.

        A `DataLoader` with workers requests batches ahead of time. With workers, pass `num_taken`, the number of
        batches that the loop has finished since it started to iterate.
        """
        position = self._resume_at
        if position is None:
            _, world_size = self.rank_and_world_size
            position = self._start + world_size * (self._num_taken if num_taken is None else num_taken)
        return self.state_at(position)

    def state_at(self, position: int) -> dict[str, Any]:
        """The state before batch number `position` of all ranks, for toolkits that count batches themselves."""
        return {"epoch": self.epoch, "position": position, "settings": dict(self._settings)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from `state`: the next iteration yields the rest of its epoch. Other data or options are rejected."""
        numbers = [state.get(name, -1) for name in ("epoch", "position")]
        if "settings" not in state or not all(is_whole_number(number) and number >= 0 for number in numbers):
            raise ValueError(f"`state` must be the `state_dict()` of a sampler; got {state}.")
        check_same_settings(self._settings, state["settings"], "data")
        self.epoch, self._resume_at = map(int, numbers)
        self._has_finished = False

    @cached_property
    def _settings(self) -> dict[str, Any]:
        digest = hashlib.blake2b(digest_size=4)
        for column in self._data:
            digest.update(np.ascontiguousarray(column).tobytes())
        fingerprint = f"{digest.hexdigest()} ({len(self._data[0]):,} utterances)"
        return {"sampler": type(self).__name__, "data": fingerprint, **self._options}


def check_same_settings(here: dict[str, Any], saved: dict[str, Any], data: str) -> None:
    """Rejects a state if the settings that batches depend on have changed. `data` is the word for the data."""
    differing = [
        f"{name}: {saved.get(name)} → {here.get(name)}"
        for name in sorted(here | saved)
        if here.get(name) != saved.get(name)
    ]
    if differing:
        raise ValueError(
            f"Cannot resume from this sampler state, because the data or options changed ({'; '.join(differing)}). Use "
            f"the {data} and options of the run that saved it."
        )


def shard(num_batches: int, rank: int, world_size: int, start: int = 0) -> range:
    """Numbers of the batches of one rank, from `start` on: every `world_size`-th.

    The last turn may continue past the end, so that all ranks get the same number of batches. A number past the end
    stands for the one `num_batches` below it.
    """
    num_turns = -(-max(0, num_batches - start) // world_size)
    return range(start + rank, start + rank + num_turns * world_size, world_size)
