"""The steps of a robust objective in tensor operations: for any device, and none of them makes the host wait for it.

`on_host.py` has the same steps, under the same names, for values that lie in the memory of the host.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .weights import BOUND, Exponent, add_and_normalize


def gather(pending: Tensor, num_skipped: Tensor, losses: Tensor, groups: Tensor, count_at_most: float) -> Tensor:
    """Adds the finite losses of a batch to the pending sums of their groups, and counts those of +inf, in place.

    Args:
        pending: (2, G): for each group the sum of the losses that wait for an update, and how many they are.
        num_skipped: (G,) how many were +inf.
        losses: (B,)
        groups: (B,) numbers from 0 to G - 1.
        count_at_most: how many of the losses of a group count. With 1, what a batch has of a group is one entry.

    Returns:
        (B,) the losses, with zero, and no gradient, in place of +inf. NaN and -inf stay.

    Example:
        >>> pending, num_skipped = torch.zeros(2, 2), torch.zeros(2)
        >>> gather(pending, num_skipped, torch.tensor([3.0, 4.0, torch.inf]), torch.tensor([1, 1, 0]), torch.inf)
        tensor([3., 4., 0.])
        >>> pending
        tensor([[0., 7.],
                [0., 2.]])
        >>> num_skipped
        tensor([1., 0.])
    """
    finite, skipped = losses.isfinite(), losses == math.inf
    rows = torch.stack((losses.detach().where(finite, 0.0).to(torch.float32), finite, skipped))
    totals = rows.new_zeros(3, len(num_skipped)).index_add_(1, groups, rows)
    totals[1].clamp_(max=count_at_most)
    pending.add_(totals[:2])
    num_skipped.add_(totals[2].to(num_skipped.dtype))
    return losses.masked_fill(skipped, 0.0)


def update_when_complete(
    log_weights: Tensor, pending: Tensor, exponent: Exponent, scales: Tensor | None = None
) -> None:
    """Updates the weights with the mean of each group's losses, in place, if every group has any that wait.

    Lines 11 to 20 of Algorithm 2. Both outcomes are computed and one is chosen on the device.

    Args:
        log_weights: (G,)
        pending: (2, G), as for `gather`; zero after an update.
        exponent: of the update.
        scales: (G,) what each group's mean is multiplied by before; by default nothing.

    Example:
        >>> exponent = lambda loss, weight: 0.001 * loss
        >>> log_weights, pending = torch.tensor([0.5, 0.5]).log(), torch.tensor([[600.0, 0.0], [2.0, 0.0]])
        >>> update_when_complete(log_weights, pending, exponent)  # two losses of group 0, none of group 1
        >>> log_weights.exp()
        tensor([0.5000, 0.5000])
        >>> pending[:, 1] = torch.tensor([100.0, 1.0])
        >>> update_when_complete(log_weights, pending, exponent)
        >>> log_weights.exp(), pending[1]
        (tensor([0.5498, 0.4502]), tensor([0., 0.]))
    """
    sums, numbers = pending
    complete = numbers.all()
    means = sums / numbers  # not a number for a group without losses, but then it is not used
    if scales is not None:
        means = means * scales
    updated = add_and_normalize(log_weights, exponent(means.clamp(-BOUND, BOUND), log_weights.exp()))
    log_weights.copy_(updated.where(complete, log_weights))
    pending.masked_fill_(complete, 0.0)


def weighted_sum(log_weights: Tensor, losses: Tensor, groups: Tensor, factor: float) -> Tensor:
    """The sum of `factor` * weight of the group * loss over the utterances of a batch (line 21 of Algorithm 2).

    Args:
        log_weights: (G,)
        losses: (B,)
        groups: (B,)
        factor: the number of groups, in Algorithm 2.

    Example:
        >>> weighted_sum(torch.tensor([0.25, 0.75]).log(), torch.tensor([10.0, 20.0]), torch.tensor([1, 0]), factor=2)
        tensor(25.)
    """
    return torch.dot((factor * log_weights.exp())[groups].to(losses.dtype), losses)
