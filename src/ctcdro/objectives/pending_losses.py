"""The arithmetic of a batch: its losses are added to the pending ones of their groups, and weighted.

Pending losses are those since the last update of the weights. The next update uses them. They are stored as three sums
per group, `pending` of shape (3, G):

    losses        sum of the finite losses
    entries       number of losses, or batches, in that sum
    characters    number of characters in their transcripts, if the signal needs it

An utterance with shares in several groups (`memberships.py`) adds to each group in proportion to its share. Its part of
an entry is divided in the same way, so the mean loss of a group is a mean over its shares.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import torch
from torch import Tensor

from . import host_memory
from .memberships import largest_groups, list_shares, mean_of_groups, sum_by_group


def add_losses(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None = None,
    by_batch: bool = False,
) -> Tensor:
    """Adds the finite losses of a batch to the pending sums of their groups, and counts those of +inf, in place.

    In host memory, a Python loop over ten numbers is cheaper than a dozen tensor operations, whose cost would be
    noticeable next to a CTC loss (`benchmarks/loss_cost.py`). On other devices, tensor operations avoid
    synchronization with the host.

    Args:
        pending: (3, G)
        num_skipped: (G,) losses of +inf, by the group with the largest share.
        losses: (B,)
        groups: (B,) numbers from 0 to G - 1; or (B, G) rows of shares.
        characters: (B,) characters of each transcript; optional.
        by_batch: whether all losses of a group in a batch are one entry, instead of one each. The utterances in which a
            group has the largest share are one entry; each group gets its mean share of that entry.

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
        return _add_in_python(pending, num_skipped, losses, groups, characters, by_batch)
    return _add_in_tensors(pending, num_skipped, losses, groups, characters, by_batch)


def weighted_sum(log_weights: Tensor, losses: Tensor, groups: Tensor, factor: float) -> Tensor:
    """Sums `factor` * group weight * loss over a batch (line 21 of Algorithm 2).

    Args:
        log_weights: (G,)
        losses: (B,)
        groups: (B,) numbers; or (B, G) rows of shares, whose weight is the mean over groups.
        factor: the number of groups in Algorithm 2.

    Example:
        >>> weighted_sum(torch.tensor([0.25, 0.75]).log(), torch.tensor([10.0, 20.0]), torch.tensor([1, 0]), factor=2)
        tensor(25.)
    """
    if host_memory.is_readable(losses, groups):
        weights = [factor * math.exp(log_weight) for log_weight in log_weights.tolist()]
        if groups.ndim == 1:
            scales = [weights[group] for group in groups.tolist()]
        else:
            scales = [sum(share * weights[group] for group, share in shares) for shares in list_shares(groups)]
        return torch.dot(torch.tensor(scales, dtype=losses.dtype), losses)
    return torch.dot(mean_of_groups(factor * log_weights.exp(), groups).to(losses.dtype), losses)


def _add_in_tensors(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None,
    by_batch: bool,
) -> Tensor:
    finite, skipped = losses.isfinite(), losses == math.inf
    if characters is None:
        characters = torch.zeros_like(losses)
    characters = characters.to(losses.device, non_blocking=True).where(finite, 0)
    rows = torch.stack((losses.detach().where(finite, 0.0).to(torch.float32), finite, characters))
    totals = sum_by_group(rows, groups, len(num_skipped))
    if by_batch:
        totals[1] = _batch_entries(rows[1], groups, len(num_skipped))
    pending.add_(totals)
    num_skipped.index_add_(0, largest_groups(groups), skipped.to(num_skipped.dtype))
    return losses.masked_fill(skipped, 0.0)


def _batch_entries(finite: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """(G,) entries of a batch: one for the finite losses of each group, divided among groups by mean share.

    The group with the largest share is counted separately from the others: without others, its entry is exactly 1.

    Args:
        finite: (B,) 1 for finite losses, otherwise 0.
    """
    largest = largest_groups(groups)
    number = sum_by_group(finite[None], largest, num_groups)[0].clamp(min=1)
    if groups.ndim == 1:
        return sum_by_group(finite[None], groups, num_groups)[0] / number
    shares = groups.gather(1, largest[:, None])[:, 0].to(finite.dtype)
    others = groups.scatter(1, largest[:, None], 0.0)
    own = sum_by_group((finite * shares)[None], largest, num_groups)[0] / number
    return own + sum_by_group((finite / number[largest])[None], others, num_groups)[0]


def _add_in_python(
    pending: Tensor,
    num_skipped: Tensor,
    losses: Tensor,
    groups: Tensor,
    characters: Tensor | None,
    by_batch: bool,
) -> Tensor:
    values, largest = losses.tolist(), largest_groups(groups).tolist()
    sums, entries, lengths = pending.tolist()
    if largest and not 0 <= min(largest) <= max(largest) < len(sums):
        raise ValueError(f"`groups` must be from 0 to {len(sums) - 1}; got {min(largest)} to {max(largest)}.")
    characters_of = [0] * len(values) if characters is None else characters.tolist()
    parts: defaultdict[int, list[float]] = defaultdict(list)  # losses of each group, times shares
    if groups.ndim == 1:
        for loss, group, length in zip(values, largest, characters_of, strict=True):
            if math.isfinite(loss):
                parts[group].append(loss)
                lengths[group] += length
        for group, group_losses in parts.items():
            entries[group] += 1 if by_batch else len(group_losses)
    else:
        num_finite: Counter[int] = Counter()  # by the group with the largest share
        total_shares: defaultdict[tuple[int, int], float] = defaultdict(float)  # by that group and that of the share
        for loss, of_group, shares, length in zip(values, largest, list_shares(groups), characters_of, strict=True):
            if not math.isfinite(loss):
                continue
            num_finite[of_group] += 1
            for group, share in shares:
                parts[group].append(share * loss)
                total_shares[of_group, group] += share
                lengths[group] += share * length
        for (of_group, group), total in total_shares.items():
            entries[group] += total / num_finite[of_group] if by_batch else total
    for group, group_losses in parts.items():
        sums[group] += sum(group_losses)
    pending.copy_(torch.tensor((sums, entries, lengths)))
    skipped = [group for group, loss in zip(largest, values, strict=True) if loss == math.inf]
    for group in skipped:
        num_skipped[group] += 1
    return losses.masked_fill(losses == math.inf, 0.0) if skipped else losses
