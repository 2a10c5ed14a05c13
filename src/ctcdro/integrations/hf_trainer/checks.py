"""Settings and data that a `RobustTrainer` rejects, or about which it warns."""

from __future__ import annotations

from typing import Any

from transformers import TrainingArguments

from ...sampling.base import PlannedBatchSampler
from ..clipping import warn_of_clipping
from .collation import MAKE_SAMPLER_LAST

# Settings of the Trainer that conflict with the sampler or the objective: the required value, and the reason.
SETTINGS: dict[str, tuple[Any, str]] = {
    "train_sampling_strategy": ("random", "`batch_sampler` chooses the batches. Leave it at its default."),
    "dataloader_drop_last": (False, "the sampler fills the last round itself. Leave it at its default."),
    "auto_find_batch_size": (False, "`batch_sampler` sets the size of batches. Lower its `batch_duration` instead."),
    "label_smoothing_factor": (0.0, "the objective weights plain losses. Leave it at its default."),
    "enable_jit_checkpoint": (
        False,
        "it may save when the weights have changed and the model has not. Use `save_steps`.",
    ),
}


def check_settings(args: TrainingArguments, num_groups: int) -> None:
    for name, (expected, why) in SETTINGS.items():
        if getattr(args, name) != expected:
            raise ValueError(f"`{name}` must be {expected!r}; got {getattr(args, name)!r}, but {why}")
    warn_of_clipping(args, num_groups, limit="max_grad_norm", batches_per_step="gradient_accumulation_steps")


def check_data(dataset: Any, group_column: str, sampler: PlannedBatchSampler, num_groups: int) -> None:
    """Rejects a dataset for which the sampler was not made; in datasets of the package `datasets`, also by group."""
    groups = getattr(sampler, "groups", None)
    data = groups if groups is not None else getattr(sampler, "durations", None)
    if data is not None and len(data) != len(dataset):
        raise ValueError(
            f"`batch_sampler` was made for {len(data):,} utterances, `train_dataset` has {len(dataset):,}. Make "
            "it from the durations and groups of that dataset, in its order, after all filtering."
        )
    if groups is None:
        return
    if groups.max() + 1 != num_groups:
        raise ValueError(
            f"`objective` has {num_groups} groups, `batch_sampler` {groups.max() + 1}. Make both with the same groups; "
            "otherwise the weights would never change."
        )
    if group_column in getattr(dataset, "column_names", []):
        column = list(dataset.with_format(None)[group_column])  # reads no audio
        pairs = set(zip(column, groups.tolist(), strict=True))
        if not len(pairs) == len(set(column)) == len(set(groups.tolist())):
            raise ValueError(
                f"{group_column!r} of `train_dataset` and the groups of `batch_sampler` must match one to one; found "
                f"{', '.join(f'{name!r} with group {number}' for name, number in sorted(pairs, key=str)[:4])}, …. "
                f"{MAKE_SAMPLER_LAST}"
            )


def check_ranks(sampler: PlannedBatchSampler, args: TrainingArguments) -> None:
    here = args.process_index, args.world_size
    if sampler.rank_and_world_size != here:
        raise ValueError(
            f"`batch_sampler` was made for (rank, world size) {sampler.rank_and_world_size}, this process is {here}. "
            "Omit its `rank` and `world_size`: by default it uses those of `torch.distributed`."
        )
