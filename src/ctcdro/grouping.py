"""From utterances to groups and back: the totals of a batch by group, and the weight of each utterance.

Both exist twice: in tensor operations, which no device has to be waited for, and in plain Python for values that lie in
the memory of the host. A dozen tensor operations on as many numbers cost more than a loop over them, and that is what a
CPU would do after every CTC loss: `benchmarks/loss_cost.py` has the figures. The tests hold one against the other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def total_by_group(
    losses: Tensor, groups: Tensor, num_groups: int, count_at_most: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Sums up the losses of a batch by group, without those that are not finite.

    Args:
        losses: (B,)
        groups: (B,) numbers from 0 to `num_groups` - 1.
        count_at_most: a limit to the second row of the totals. With 1, all that a batch has of a group is one entry.

    Returns:
        (B,) the losses, with zero, and no gradient, in the place of those that are not finite; and (3, G) totals: for
        each group the sum of its losses, how many they are, and how many are not finite.

    Example:
        >>> losses, totals = total_by_group(torch.tensor([3.0, 4.0, torch.inf]), torch.tensor([1, 1, 0]), num_groups=2)
        >>> losses
        tensor([3., 4., 0.])
        >>> totals
        tensor([[0., 7.],
                [0., 2.],
                [1., 0.]])
    """
    if is_readable(losses) and is_readable(groups):
        return _total_on_host(losses, groups, num_groups, count_at_most)
    finite = losses.isfinite()
    losses = losses.masked_fill(~finite, 0.0)
    rows = torch.stack((losses.detach().to(torch.float32), finite, ~finite))
    totals = rows.new_zeros(3, num_groups).index_add_(1, groups, rows)
    totals[1].clamp_(max=count_at_most)
    return losses, totals


def weight_of_each(log_weights: Tensor, groups: Tensor, factor: float) -> Tensor:
    """(G,) logarithms of weights, (B,) groups -> (B,) the weight of each utterance's group, times `factor`.

    Example:
        >>> weight_of_each(torch.tensor([0.25, 0.75]).log(), torch.tensor([1, 1, 0]), factor=2)
        tensor([1.5000, 1.5000, 0.5000])
    """
    if is_readable(log_weights) and is_readable(groups):
        weights = [factor * math.exp(log_weight) for log_weight in log_weights.tolist()]
        return torch.tensor([weights[group] for group in groups.tolist()], dtype=log_weights.dtype)
    return (factor * log_weights.exp())[groups]


def is_readable(tensor: Tensor) -> bool:
    """Whether the host has the values at hand: they lie in its own memory, and are neither fake nor being traced."""
    return tensor.is_cpu and type(tensor) is Tensor and not torch.compiler.is_compiling()


def _total_on_host(losses: Tensor, groups: Tensor, num_groups: int, count_at_most: float) -> tuple[Tensor, Tensor]:
    sums, numbers, skipped = ([0.0] * num_groups for _ in range(3))
    for loss, group in zip(losses.tolist(), groups.tolist(), strict=True):
        if not 0 <= group < num_groups:
            raise ValueError(f"`groups` must be numbers from 0 to {num_groups - 1}; got {group}.")
        if math.isfinite(loss):
            sums[group] += loss
            numbers[group] = min(numbers[group] + 1, count_at_most)
        else:
            skipped[group] += 1
    if any(skipped):
        losses = losses.masked_fill(~losses.isfinite(), 0.0)
    return losses, torch.tensor((sums, numbers, skipped), dtype=torch.float32)
