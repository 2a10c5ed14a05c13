"""Empirical risk minimization: the baseline."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from .objective import Objective, Reduction, Shared


def erm(num_groups: int, *, reduction: Reduction = "sum", **shared: Unpack[Shared]) -> Objective:
    """Empirical risk minimization, the baseline: all losses have the same weight.

    Args:
        num_groups: number of groups.
        reduction: "sum" or "mean" of the losses of a batch.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> import torch
        >>> erm(num_groups=2)(torch.tensor([3.0, 4.0]), torch.tensor([0, 1]))
        tensor(7.)
    """
    return ERM(num_groups, settings={}, reduction=reduction, **shared)


class ERM(Objective):
    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        self.pending.zero_()
        return losses.sum()
