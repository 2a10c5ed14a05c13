"""Length-matched batches with shares that follow the group weights during training.

Group weights can act as factors on the losses of equally frequent groups, or as shares of the batches. The expected
gradient is the same. With shares, the model sees a group with a high weight more often, instead of taking larger steps
on it. Gradient clipping and optimizers that normalize the gradient, such as Adam, undo factors, but not shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .batch_arrays import PackedBatches, Seconds
from .planned_rounds import PassLimit, PlannedInRounds, Weighted
from .samplers import LengthMatchedBatchSampler, Numbers


class AdaptiveBatchSampler(PlannedInRounds, LengthMatchedBatchSampler):
    """Like `LengthMatchedBatchSampler`, with shares of the batches in proportion to the weights of an objective.

    The objective then no longer multiplies losses by its weights. Batches are planned in rounds of
    `num_groups` batches. When the first batch of a round is requested, the current weights become its shares.
    Passes over the utterances of a group continue from one epoch to the next, so a group with a small share is still
    seen completely.

    The state includes the rounds that a `DataLoader` has requested ahead of time. Resuming is exact with the same
    number of ranks and workers.

    Args:
        durations, groups, batch_duration, seed, rank, world_size, group_names, where: as for
            `LengthMatchedBatchSampler`.
        objective: such as `ctcdro.error_weighted(…)`, with the same groups. None for equal weights.
        exponent: as for `LengthMatchedBatchSampler`. Shares are the product of its shares and the weights.
        limit: how often utterances may be repeated during training. The batches that a small group may not have go to
            the other groups. None for no limit.

    Example:
        >>> import ctcdro
        >>> objective = ctcdro.error_weighted(2, power=1.0, signal="error_rate")
        >>> objective.update_error_rates([0.8, 0.2])
        >>> durations, groups = [5.0] * 80, [0, 1] * 40
        >>> sampler = AdaptiveBatchSampler(durations, groups, objective, batch_duration=10.0)
        >>> sum(groups[batch[0]] == 0 for batch in sampler), len(sampler)
        (32, 40)
    """

    def __init__(
        self,
        durations: Numbers,
        groups: Numbers,
        objective: Weighted | None,
        batch_duration: Seconds = 50.0,
        exponent: float = 0.0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group_names: Sequence[str] | None = None,
        limit: PassLimit | None = None,
        where: Callable[[int], str] | None = None,
    ) -> None:
        super().__init__(durations, groups, batch_duration, exponent, seed, rank, world_size, group_names, where)
        if limit is not None:
            self._options |= {"max_passes": limit.max_passes, "total_batches": limit.total_batches}
        self._latest_passes: dict[int, tuple[int, PackedBatches]] = {}
        self._set_up_rounds(objective, limit)

    def _pass(self, group: int, number: int) -> PackedBatches:
        if self._latest_passes.get(group, (None,))[0] != number:
            self._latest_passes[group] = number, super()._pass(group, number)
        return self._latest_passes[group][1]


def make_sampler(
    durations: Numbers, groups: Numbers, objective: Weighted | None, *options: Any, **named_options: Any
) -> LengthMatchedBatchSampler:
    """A sampler with adaptive shares if the objective prefers them, otherwise with fixed shares."""
    if objective is not None and objective.prefers_shares:
        return AdaptiveBatchSampler(durations, groups, objective, *options, **named_options)
    return LengthMatchedBatchSampler(durations, groups, *options, **named_options)
