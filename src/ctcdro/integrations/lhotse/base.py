"""The groups of cuts, and the base of both samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
import torch
from lhotse import CutSet
from lhotse.cut import Cut
from lhotse.dataset.sampling.base import CutSampler
from torch import Tensor

from ...sampling.base import check_same_settings
from ...sampling.batch_arrays import Seconds
from ...sampling.streaming import known_group

GroupOf: TypeAlias = Callable[[Cut], str]


def language_of(cut: Cut) -> str:
    """The language of the first supervision, the default group of a cut."""
    language = cut.supervisions[0].language if cut.supervisions else None
    if language is None:
        raise ValueError(
            f"`cuts`: the first supervision of cut {cut.id!r} has no language, so its group is unknown. Set "
            "`language`, or pass `group_of`, a function from a cut to the name of its group."
        )
    return str(language)


def group_numbers(cuts: Iterable[Cut], group_names: Sequence[str], group_of: GroupOf = language_of) -> Tensor:
    """(B,) the number of each cut's group: its position in `group_names`."""
    numbers = {name: number for number, name in enumerate(group_names)}
    return torch.tensor([numbers[known_group(group_of(cut), cut, numbers)] for cut in cuts])


class ResumableCutSampler(CutSampler):
    """A `CutSampler` whose ranks stay in step, with (epoch, position) as its state."""

    remaining_duration = remaining_cuts = None  # unknown
    num_cuts: int | None = None

    def __init__(
        self, batch_duration: Seconds, group_of: GroupOf, seed: int, rank: int | None, world_size: int | None
    ) -> None:
        if not (isinstance(batch_duration, int | float) and 0 < batch_duration < np.inf):
            raise ValueError(f"`batch_duration` must be a positive number of seconds; got {batch_duration!r}.")
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"`seed` must be a non-negative integer, so that ranks agree; got {seed!r}.")
        super().__init__(shuffle=True, seed=seed, rank=rank, world_size=world_size)
        self.batch_duration = float(batch_duration)
        self.group_of = group_of
        self._start = self._num_taken = 0
        self._resume_at: int | None = None
        self._batches: Iterator[list[Cut]] | None = None

    def _epoch_batches(self, start: int) -> Iterator[list[Cut]]:
        """Batches of the epoch for all ranks, from number `start` on; a multiple of the number of ranks."""
        raise NotImplementedError

    def _settings(self) -> dict[str, Any]:
        """Values, except the epoch, that the batches depend on: a state with other values is rejected."""
        raise NotImplementedError

    def __iter__(self) -> ResumableCutSampler:
        self._start, self._num_taken = self._resume_at or 0, 0
        self._batches = self._epoch_batches(self._start)
        if self._resume_at is None:
            self.diagnostics.reset_current_epoch()
        return self

    def __next__(self) -> CutSet:
        if self._batches is None:
            iter(self)
        self.allow_iter_to_reset_state()
        batch = super().__next__()
        self._num_taken += 1
        return batch

    def _next_batch(self) -> CutSet:
        assert self._batches is not None
        return CutSet.from_cuts(next(self._batches))

    def allow_iter_to_reset_state(self) -> None:
        super().allow_iter_to_reset_state()
        self._resume_at = None

    def set_epoch(self, epoch: int) -> None:
        """Setting the epoch of a loaded state keeps its position."""
        if epoch != self.epoch:
            self._start, self._num_taken, self._batches = 0, 0, None
        super().set_epoch(epoch)

    def state_dict(self, num_taken: int | None = None) -> dict[str, Any]:
        """The state for `load_state_dict`, on any rank; `num_taken` as for `ctcdro.LengthMatchedBatchSampler`."""
        position = self._resume_at
        if position is None:
            position = self._start + self.world_size * (self._num_taken if num_taken is None else num_taken)
        return {**super().state_dict(), "position": position, "settings": self._settings()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from a state: the next iteration yields the rest of its epoch. Other cuts or options are rejected."""
        if not {"position", "settings"} <= state_dict.keys():
            raise ValueError(f"`state_dict` must come from a {type(self).__name__}; got one with {sorted(state_dict)}.")
        check_same_settings(self._settings(), state_dict["settings"], "cuts")
        # lhotse clears its argument and requires the same ranks, which do not matter here.
        of_lhotse = {name: deepcopy(state_dict[name]) for name in super().state_dict()}
        super().load_state_dict(of_lhotse | {"rank": self.rank, "world_size": self.world_size})
        self._resume_at, self._batches = state_dict["position"], None
