"""Batches with the group of each utterance, and checks that the dataset matches the sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ...sampling.base import PlannedBatchSampler
from .error_rates import encode_names

MAKE_SAMPLER_LAST = (
    "The dataset was shuffled, filtered or sorted after the sampler was created. Create the sampler last, from the "
    "durations and groups of `train_dataset` in its final order."
)


@dataclass(frozen=True)
class GroupCollator:
    """Collates items without their groups, then adds group numbers in training and names, which may be new, in
    evaluation."""

    collate: Callable[[list[Any]], Any]
    column: str
    num_groups: int
    names: list[str] | None
    one_group: bool  # in each training batch
    is_training: bool = False

    def __call__(self, items: list[Any]) -> Any:
        groups = None
        if all(isinstance(item, Mapping) and self.column in item for item in items):
            groups = [item[self.column] for item in items]
            items = [{name: item[name] for name in item if name != self.column} for item in items]
        batch = self.collate(items)
        groups = batch.get(self.column) if groups is None else groups
        if groups is not None:
            groups = [group.item() if isinstance(group, Tensor) else group for group in groups]
            batch[self.column] = self._numbers(groups) if self.is_training else encode_names(map(self._name, groups))
        return batch

    def _numbers(self, groups: list[Any]) -> Tensor:
        number_of = {number: number for number in range(self.num_groups)}
        number_of |= {name: number for number, name in enumerate(self.names or [])}  # type: ignore[misc]
        unknown = [group for group in groups if group not in number_of]
        if unknown:
            raise ValueError(
                f"`group_column`: {self.column!r} must hold one of {', '.join(map(str, number_of))}; got "
                f"{unknown[0]!r}. Names are those in `group_names` of `objective`."
            )
        if self.one_group and len(set(groups)) > 1:
            raise ValueError(
                "`batch_sampler` creates batches of one group, but this batch contains "
                f"{', '.join(sorted(set(map(self._name, groups))))}. {MAKE_SAMPLER_LAST}"
            )
        return torch.tensor([number_of[group] for group in groups])

    def _name(self, group: Any) -> str:
        return self.names[group] if self.names and group in range(self.num_groups) else str(group)


class EpochLoader(DataLoader):
    """A loader with `set_epoch`, whose worker seeds depend only on seed and epoch."""

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generator = torch.Generator()  # otherwise each iteration draws from the generator of dropout
        self._seed = seed

    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        self.generator.manual_seed(self._seed + epoch)


def check_data(dataset: Any, group_column: str, sampler: PlannedBatchSampler, num_groups: int) -> None:
    """Rejects a dataset that does not match the sampler; compares groups if it is a dataset of `datasets`."""
    groups = getattr(sampler, "groups", None)
    data = getattr(sampler, "durations", groups)
    if data is not None and len(data) != len(dataset):
        raise ValueError(
            f"`batch_sampler` was created for {len(data):,} utterances, but `train_dataset` has {len(dataset):,}. "
            f"{MAKE_SAMPLER_LAST}"
        )
    if groups is not None and groups.max() + 1 != num_groups:
        raise ValueError(
            f"`objective` has {num_groups} groups, but `batch_sampler` has {groups.max() + 1}, so the weights would "
            "never change. Create both with the same groups."
        )
    if groups is not None and group_column in getattr(dataset, "column_names", []):
        column = list(dataset.with_format(None)[group_column])  # reads no audio
        pairs = set(zip(column, groups.tolist(), strict=True))
        if not len(pairs) == len(set(column)) == len(set(groups.tolist())):
            raise ValueError(
                f"{group_column!r} of `train_dataset` and the groups of `batch_sampler` must match one to one; found "
                f"{', '.join(f'{name!r} with group {number}' for name, number in sorted(pairs, key=str)[:4])}, …. "
                f"{MAKE_SAMPLER_LAST}"
            )
