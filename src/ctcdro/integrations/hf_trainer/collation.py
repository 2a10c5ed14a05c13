"""Batches with the group of each utterance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from .error_rates import encode_names

MAKE_SAMPLER_LAST = (
    "The dataset was shuffled, filtered or sorted after the sampler was made. Make the sampler last, from the "
    "durations and groups of `train_dataset` in its final order."
)


@dataclass(frozen=True)
class GroupCollator:
    """Removes the groups from the items, collates the rest, and adds the groups to the batch.

    Training batches hold group numbers. Evaluation batches hold group names, because evaluation data may have groups
    that training does not have. Labels are checked here, where they are still on the host, because the model does not
    receive them.

    Args:
        collate: the collator of the user.
        column: key of the groups in items and batch.
        num_groups, names: those of the objective.
        vocab_size: that of the model, if known.
        one_group: whether training batches must have one group.
        is_training: whether these are training batches.
    """

    collate: Callable[[list[Any]], Any]
    column: str
    num_groups: int
    names: list[str] | None
    vocab_size: int | None
    one_group: bool
    is_training: bool = False

    def __call__(self, items: list[Any]) -> Any:
        groups = None
        if all(isinstance(item, Mapping) and self.column in item for item in items):
            groups = [item[self.column] for item in items]
            items = [{name: item[name] for name in item if name != self.column} for item in items]
        batch = self.collate(items)
        self._check_labels(batch.get("labels"))
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
            expected = "no names, as `objective` was made without `group_names`"
            if self.names is not None:
                expected = f"`group_names` of `objective`: {', '.join(self.names)}"
            raise ValueError(
                f"`group_column`: {self.column!r} must hold numbers from 0 to {self.num_groups - 1}, or names "
                f"({expected}); got {unknown[0]!r}."
            )
        if self.one_group and len(set(groups)) > 1:
            raise ValueError(
                "`batch_sampler` makes batches of one group, but this one has "
                f"{', '.join(sorted(set(map(self._name, groups))))}. {MAKE_SAMPLER_LAST}"
            )
        return torch.tensor([number_of[group] for group in groups])

    def _name(self, group: Any) -> str:
        return self.names[group] if self.names and group in range(self.num_groups) else str(group)

    def _check_labels(self, labels: Any) -> None:
        if self.vocab_size is None or not isinstance(labels, Tensor) or not labels.numel():
            return
        if labels.max() >= self.vocab_size:
            raise ValueError(
                f"Labels must be less than `vocab_size` of the model, {self.vocab_size}; got {labels.max()}. The "
                "tokenizer has more labels than the model: load the model with `vocab_size=len(tokenizer)`."
            )


class EpochLoader(DataLoader):
    """A loader for batches of a sampler of ctcdro, of which the Trainer sets the epoch.

    The seeds of worker processes depend on seed and epoch only, whether or not the run resumes.
    """

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        # Without its own generator, each iteration would draw from the generator that dropout uses.
        super().__init__(*args, generator=torch.Generator(), **kwargs)
        self._seed = seed

    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        self.generator.manual_seed(self._seed + epoch)
