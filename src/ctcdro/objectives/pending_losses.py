"""The arithmetic of a batch: its losses are added to the pending ones of their groups, and weighted.

Pending losses are those since the last update of the weights. The next update uses them. They are stored as three sums
per group, `pending` of shape (3, G):

    losses        sum of the finite losses
    entries       number of losses, or batches, in that sum
    characters    number of characters in their transcripts, if the signal needs it
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import host_memory


def add_losses(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None = None,
    max_entries: float = math.inf,
) -> Tensor:
    """Adds the finite losses of a batch to the pending sums of their groups, and counts those of +inf, in place.

    In host memory, a Python loop over ten numbers is cheaper than a dozen tensor operations, whose cost would be
    noticeable next to a CTC loss (`benchmarks/loss_cost.py`). On other devices, tensor operations avoid
    synchronization with the host.

    Args:
        pending: (3, G)
        num_skipped: (G,) losses of +inf.
        losses: (B,)
        groups: (B,) numbers from 0 to G - 1.
        characters: (B,) characters of each transcript; optional.
        max_entries: entries per group and batch. With 1, all losses of a group in a batch are one entry.

    Returns:
        (B,) the losses, with +inf replaced by zero without gradient. NaN and -inf stay.

    Example:
        >>> pending, num_skipped = torch.zeros(3, 2), torch.zeros(2)
        >>> add_losses(pending, num_skipped, torch.tensor([3.0, 4.0, torch.inf]), torch.tensor([1, 1, 0]))
        tensor([3., 4., 0.])
        >>> pending
        tensor([[0., 7.],
                [0., 2.],
                [0., 0.]])
        >>> num_skipped
        tensor([1., 0.])
    """
    if host_memory.is_readable(losses, groups):
        return _add_in_python(pending, num_skipped, losses, groups, characters, max_entries)
    return _add_in_tensors(pending, num_skipped, losses, groups, characters, max_entries)


def weighted_sum(log_weights: Tensor, losses: Tensor, groups: Tensor, factor: float) -> Tensor:
    """Sums `factor` * group weight * loss over a batch (line 21 of Algorithm 2).

    Args:
        log_weights: (G,)
        losses: (B,)
        groups: (B,)
        factor: the number of groups in Algorithm 2.

    Example:
        >>> weighted_sum(torch.tensor([0.25, 0.75]).log(), torch.tensor([10.0, 20.0]), torch.tensor([1, 0]), factor=2)
        tensor(25.)
    """
    if host_memory.is_readable(losses, groups):
        weights = [factor * math.exp(log_weight) for log_weight in log_weights.tolist()]
        return torch.dot(torch.tensor([weights[group] for group in groups.tolist()], dtype=losses.dtype), losses)
    return torch.dot((factor * log_weights.exp())[groups].to(losses.dtype), losses)


def _add_in_tensors(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None,
    max_entries: float,
) -> Tensor:
    finite, skipped = losses.isfinite(), losses == math.inf
    if characters is None:
        characters = torch.zeros_like(losses)
    characters = characters.to(losses.device, non_blocking=True).where(finite, 0)
    rows = torch.stack((losses.detach().where(finite, 0.0).to(torch.float32), finite, characters, skipped))
    totals = rows.new_zeros(4, len(num_skipped)).index_add_(1, groups, rows)
    totals[1].clamp_(max=max_entries)
    pending.add_(totals[:3])
    num_skipped.add_(totals[3].to(num_skipped.dtype))
    return losses.masked_fill(skipped, 0.0)


def _add_in_python(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None,
    max_entries: float,
) -> Tensor:
    numbers, values = groups.tolist(), losses.tolist()
    sums, entries, lengths = pending.tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(sums):
        raise ValueError(f"`groups` must be from 0 to {len(sums) - 1}; got {min(numbers)} to {max(numbers)}.")
    finite: dict[int, list[float]] = {}
    skipped: list[int] = []
    for loss, group in zip(values, numbers, strict=True):
        if math.isfinite(loss):
            finite.setdefault(group, []).append(loss)
        elif loss == math.inf:
            skipped.append(group)
    for group, group_losses in finite.items():
        sums[group] += sum(group_losses)
        entries[group] += min(len(group_losses), max_entries)
    if characters is not None:
        for loss, group, length in zip(values, numbers, characters.tolist(), strict=True):
            lengths[group] += length if math.isfinite(loss) else 0
    pending.copy_(torch.tensor((sums, entries, lengths)))
    for group in skipped:
        num_skipped[group] += 1
    return losses.masked_fill(losses == math.inf, 0.0) if skipped else losses
