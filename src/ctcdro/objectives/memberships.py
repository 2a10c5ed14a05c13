"""Membership of utterances in groups: one group number per utterance, or a row of shares per utterance.

Group numbers have shape (B,). Rows have shape (B, G): non-negative shares that sum to 1, for utterances that belong to
several groups, such as one in two languages. A row with a single 1 is the same as the number of that group.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import host_memory

# The sum of a row may differ from 1 by this much, such as by the rounding errors of half precision.
TOLERANCE = 5e-3


def largest_groups(groups: Tensor) -> Tensor:
    """(B,) the group with the largest share in each utterance; the first if there is a tie.

    Example:
        >>> largest_groups(torch.tensor([[0.3, 0.7], [0.5, 0.5]]))
        tensor([1, 0])
    """
    return groups if groups.ndim == 1 else groups.argmax(dim=1)


def list_shares(rows: Tensor) -> list[list[tuple[int, float]]]:
    """The groups and positive shares of each utterance, read by the host.

    Example:
        >>> list_shares(torch.tensor([[0.25, 0.75], [1.0, 0.0]]))
        [[(0, 0.25), (1, 0.75)], [(0, 1.0)]]
    """
    return [[(group, share) for group, share in enumerate(row) if share > 0] for row in rows.tolist()]


def sum_by_group(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Sums values per group, each multiplied by the share of its utterance. The host does not wait for the device.

    Each group adds its utterances in their order, so rows with a single 1 give the same bits as group numbers.

    Args:
        values: (K, B)
        groups: (B,) or (B, G)

    Returns:
        (K, G)

    Example:
        >>> sum_by_group(torch.tensor([[10.0, 20.0]]), torch.tensor([[0.5, 0.5], [0.0, 1.0]]), num_groups=2)
        tensor([[ 5., 25.]])
    """
    if groups.ndim == 2:
        values = (values[:, :, None] * groups.to(values.dtype)).flatten(1)
        groups = torch.arange(num_groups, device=groups.device).repeat(len(groups))
    return values.new_zeros(len(values), num_groups).index_add_(1, groups, values)


def mean_of_groups(numbers: Tensor, groups: Tensor) -> Tensor:
    """(B,) the number of each utterance's group, or the mean over its groups, weighted by its shares.

    Args:
        numbers: (G,)
        groups: (B,) or (B, G)

    Example:
        >>> mean_of_groups(torch.tensor([2.0, 4.0]), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
        tensor([3., 4.])
    """
    # Not a matrix product, whose rounding on a GPU depends on settings.
    return numbers[groups] if groups.ndim == 1 else (groups.to(numbers.dtype) * numbers).sum(dim=1)


def check_rows(rows: Tensor) -> None:
    """Rejects rows that are not on the simplex. Rows on a GPU are checked there; a later operation raises the error."""
    is_wrong = (rows < 0).any(dim=1) | ~((rows.sum(dim=1) - 1).abs() <= TOLERANCE)
    if host_memory.is_readable(rows):
        for utterance in is_wrong.nonzero().flatten().tolist()[:1]:
            raise ValueError(
                "`groups` must have rows of non-negative shares that sum to 1; "
                f"utterance {utterance} has {rows[utterance].tolist()!s:.200}."
            )
    elif rows.is_cuda or rows.is_cpu:  # other devices lack the operation
        torch._assert_async(~is_wrong.any(), "`groups` must have rows of non-negative shares that sum to 1.")
