"""Checks of the settings of a toolkit: gradient clipping that would undo the group weights, ranks, and objectives."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ..objectives.objective import Objective
from ..runtime.ranks import rank_and_world_size
from ..sampling.adaptive import AdaptiveBatchSampler
from ..sampling.base import PlannedBatchSampler

logger = logging.getLogger(__name__)

LOW_LIMIT = 10.0  # nearly every batch of speech has a larger gradient: see benchmarks/clipping.py


def warn_of_clipping(settings: object, objective: Objective, limit: str, batches_per_step: str) -> None:
    """Logs a warning if losses are weighted, a step has fewer batches than groups, and it is clipped to a low norm.

    `limit` and `batches_per_step` are the toolkit's names of the options for the norm and for the batches per process.
    """
    norm = getattr(settings, limit, None)
    _, world_size = rank_and_world_size()
    has_all_groups = getattr(settings, batches_per_step) * world_size >= objective.num_groups
    if objective.scales_losses and norm and norm <= LOW_LIMIT and not has_all_groups:
        logger.warning(
            f"`{limit}` is {norm:g}, but nearly every batch has a larger gradient. A clipped batch has the same "
            f"influence regardless of the weight of its group. Raise `{limit}`, for example to 1000, or use batches of "
            f"all groups in each step (`{batches_per_step}`)."
        )


def check_ranks(sampler: PlannedBatchSampler, rank: int, world_size: int) -> None:
    """Rejects a sampler whose rank differs from that of the toolkit."""
    if sampler.rank_and_world_size != (rank, world_size):
        raise ValueError(
            f"The batch sampler was created for (rank, world size) {sampler.rank_and_world_size}, but this process is "
            f"{(rank, world_size)}; batches would be repeated or missed. Create the sampler without `rank` and "
            "`world_size`."
        )


def check_objective(sampler: PlannedBatchSampler, objectives: Iterable[Objective]) -> None:
    """Rejects an adaptive sampler that was created with another objective than those that are trained."""
    if isinstance(sampler, AdaptiveBatchSampler) and all(sampler.objective is not each for each in objectives):
        raise ValueError(
            "The AdaptiveBatchSampler was created with another objective, whose weights never change. Pass it the "
            "objective that is trained."
        )
