"""Checks of the settings of a toolkit: gradient clipping that would undo the group weights, and ranks."""

from __future__ import annotations

import logging

from ..runtime.ranks import rank_and_world_size
from ..sampling.base import PlannedBatchSampler

logger = logging.getLogger(__name__)

LOW_LIMIT = 10.0  # nearly every batch of speech has a larger gradient: see benchmarks/clipping.py


def warn_of_clipping(settings: object, num_groups: int, limit: str, batches_per_step: str) -> None:
    """Logs a warning if a step has fewer batches than groups and is clipped to a low norm.

    `limit` and `batches_per_step` are the toolkit's names of the options for the norm and for the batches per process.
    """
    norm = getattr(settings, limit, None)
    _, world_size = rank_and_world_size()
    if norm and norm <= LOW_LIMIT and getattr(settings, batches_per_step) * world_size < num_groups:
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
