"""Length-matched batches from an eager CutSet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from lhotse import CutSet
from lhotse.cut import Cut
from lhotse.dataset.sampling.base import CutSampler

from ...objectives.objective import Objective
from ...sampling.adaptive import AdaptiveBatchSampler, make_sampler
from ...sampling.batch_arrays import Seconds
from .base import GroupOf, ResumableCutSampler, group_numbers, language_of


class LengthMatchedCutSampler(ResumableCutSampler):
    """CutSets of one group each, with total durations close to `batch_duration`, from an eager CutSet.

    The batches are those of `ctcdro.LengthMatchedBatchSampler`, in its order, with the same guarantees. With an
    error-weighted objective, they are those of `ctcdro.AdaptiveBatchSampler`: its weights become shares of the batches.

    Args:
        batch_duration, exponent, seed: as for `ctcdro.LengthMatchedBatchSampler`.
        group_names: the groups, in the order of their numbers; by default those of the cuts, sorted.
        group_of: returns the name of a cut's group; by default the language of its first supervision.
        rank, world_size: by default those that lhotse detects.
        objective: the one that is trained, with the same groups in the same order. Only error-weighted objectives
            change the batches.

    Example:
        >>> from lhotse.testing.dummies import dummy_cut
        >>> cuts = [dummy_cut(number, duration=seconds) for number, seconds in enumerate([4.0, 6.0, 5.0, 5.0])]
        >>> sampler = LengthMatchedCutSampler(cuts, batch_duration=10.0, group_of=lambda cut: "pol")
        >>> sorted(sorted(cut.duration for cut in batch) for batch in sampler)
        [[4.0, 6.0], [5.0, 5.0]]
    """

    def __init__(
        self,
        cuts: CutSet | Sequence[Cut],
        batch_duration: Seconds = 50.0,
        exponent: float = 0.0,
        *,
        group_names: Sequence[str] | None = None,
        group_of: GroupOf = language_of,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        if (isinstance(cuts, CutSet) and cuts.is_lazy) or not hasattr(cuts, "__len__"):
            raise ValueError(
                "`cuts` must be an eager CutSet or a list, because whole epochs are planned; got a lazy CutSet. Call "
                "`cuts.to_eager()` if it fits into memory, or use `LengthMatchedStreamSampler`."
            )
        super().__init__(batch_duration, group_of, seed, rank, world_size)
        self.cuts = cuts
        self.exponent = exponent
        self.objective = objective
        self._given_names = group_names
        self._make_plan()

    def __len__(self) -> int:
        """Batches in a whole epoch on this rank."""
        return -(-self._planned.num_batches // self.world_size)

    def filter(self, predicate: Callable[[Cut], bool]) -> CutSampler:
        super().filter(predicate)
        self._make_plan()
        return self

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._planned.set_epoch(epoch)

    def state_dict(self, num_taken: int | None = None) -> dict[str, Any]:
        state = super().state_dict(num_taken)
        return self._planned.state_at(state["position"]) | state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._planned.load_state_dict(state_dict | {"settings": self._planned_settings})

    def _make_plan(self) -> None:
        self._kept = [cut for cut in self.cuts if self._filter_fn(cut)]
        if not self._kept:
            raise ValueError(f"`cuts` must not be empty; the filter rejected all {len(self.cuts):,} cuts.")
        self.num_cuts = len(self._kept)
        self.group_names = list(self._given_names or sorted({self.group_of(cut) for cut in self._kept}))
        self._check_objective()
        durations = [cut.duration for cut in self._kept]
        groups = group_numbers(self._kept, self.group_names, self.group_of)
        options = self.batch_duration, self.exponent, self.seed
        # lhotse deals the batches out: each rank goes through those of all ranks in every step.
        self._planned = make_sampler(
            durations,
            groups,
            self.objective,
            *options,
            rank=0,
            world_size=1,
            where=lambda number: self._kept[number].id,
        )
        self._planned.set_epoch(self.epoch)

    def _check_objective(self) -> None:
        if self.objective is None:
            return
        names = self.objective.group_names
        if self.objective.num_groups != len(self.group_names) or names not in (None, self.group_names):
            found = f"{self.objective.num_groups} groups" if names is None else ", ".join(names)
            raise ValueError(
                f"`objective` must have the groups of the sampler, in the same order: {', '.join(self.group_names)}; "
                f"got {found}. Pass the same `group_names` to both."
            )

    def _epoch_batches(self, start: int) -> Iterator[list[Cut]]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None and isinstance(self._planned, AdaptiveBatchSampler):
            raise ValueError(
                "A worker of an `IterableDatasetWrapper` has a copy of `objective`, whose weights never change. Pass "
                "this sampler to `DataLoader(dataset, sampler=sampler, batch_size=None)` instead."
            )
        if worker is not None and worker.num_workers > 1:
            raise ValueError(
                f"`num_workers` is {worker.num_workers}, and each worker of an `IterableDatasetWrapper` would yield "
                "all batches. Pass this sampler to `DataLoader(dataset, sampler=sampler, batch_size=None)` instead."
            )
        for batch in self._planned.batches_of_all_ranks(self.world_size, start):
            yield [self._kept[index] for index in batch]

    def _settings(self) -> dict[str, Any]:
        return {"group_names": self.group_names, **self._planned_settings}

    @property
    def _planned_settings(self) -> dict[str, Any]:
        return self._planned.state_dict()["settings"]
