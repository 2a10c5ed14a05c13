"""Static weights: chosen before training, and constant. A control for methods whose weights follow the errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import torch

from .numbers_by_group import Rates, numbers_by_group
from .objective import Objective, Reduction, Shared


def static_weights(
    num_groups: int, weights: Rates, *, reduction: Reduction = "sum", **shared: Unpack[Shared]
) -> Objective:
    r"""Constant weights: the loss of a batch is :math:`|G| \sum_i q_{g(i)} \ell_i`, as in CTC-DRO.

    Weights in proportion to the error rates of a baseline show how much of the effect of another method comes from
    following the errors during training.

    Args:
        num_groups: number of groups.
        weights: (G,) positive numbers, ordered by group number; or by group name, with `group_names`. Their sum does
            not matter.
        reduction: "sum" or "mean" of the losses of a batch.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> objective = static_weights(2, {"ces": 1, "cmn": 3}, group_names=["ces", "cmn"])
        >>> objective.weights
        tensor([0.2500, 0.7500])
        >>> objective(torch.tensor([10.0, 20.0]), ["ces", "cmn"])
        tensor(35.)
    """
    return StaticWeights(num_groups, weights, settings={"weights": weights}, reduction=reduction, **shared)


class StaticWeights(Objective):
    prefers_shares = True

    def __init__(self, num_groups: int, weights: Rates, **options: Any) -> None:
        super().__init__(num_groups, **options)
        numbers = numbers_by_group("weights", weights, self.num_groups, self.group_names, meaning="weight")
        if not bool((numbers > 0).all()):
            raise ValueError(f"`weights` must be positive numbers; got {weights!r:.200}.")
        names = set(weights) if isinstance(weights, Mapping) else set()
        if unknown := sorted(names.difference(self.group_names or [])):
            raise ValueError(f"`weights` has groups that are not in `group_names`: {', '.join(unknown)}. Remove them.")
        self.log_weights.copy_(torch.log_softmax(numbers.double().log(), dim=0))
