"""A warning where a toolkit's gradient clipping would undo the group weights."""

from __future__ import annotations

import logging

from .generators import world_size

# Nearly every batch of speech has a larger gradient, whether its losses are summed or averaged: see
# benchmarks/clipping.py.
LOW_LIMIT = 10.0


def warn_of_clipping(
    logger: logging.Logger,
    limit: float | None,
    batches_per_step: int,
    num_groups: int,
    *,
    limit_option: str,
    steps_option: str,
) -> None:
    """Logs a warning if a step has too few batches for all groups and is clipped to a low norm.

    Args:
        logger: of the integration.
        limit: on the norm of the gradient; None or 0 for none.
        batches_per_step: batches whose gradients each process adds before clipping.
        num_groups: number of groups.
        limit_option: name of the toolkit's option for the limit.
        steps_option: name of its option for the number of batches per step.
    """
    if limit and limit <= LOW_LIMIT and batches_per_step * world_size() < num_groups:
        logger.warning(
            f"`{limit_option}` is {limit:g}, but nearly every batch has a larger gradient, and a clipped batch of one "
            f"group has the same influence whatever the weight of its group. Raise `{limit_option}`, for example to "
            f"1000, or let a step have batches of all groups (`{steps_option}`)."
        )
