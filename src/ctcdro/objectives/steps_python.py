"""The steps of `on_device.py`, under the same names, in plain Python: for values that lie in the memory of the host.

There, a loop over ten numbers costs less than a dozen tensor operations on them, which would show beside a CTC loss
(`benchmarks/loss_cost.py`), and an update that is not due can be left out. The tests hold one against the other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .weights import BOUND, Exponent


def can_read(losses: Tensor, groups: Tensor) -> bool:
    """Whether the host has these values at hand: in its own memory, and neither fake nor being traced."""
    return (
        losses.is_cpu and groups.is_cpu and type(losses) is type(groups) is Tensor and not torch.compiler.is_compiling()
    )


def gather(pending: Tensor, num_skipped: Tensor, losses: Tensor, groups: Tensor, count_at_most: float) -> Tensor:
    numbers = groups.tolist()
    sums, counts = pending.tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(sums):
        raise ValueError(f"`groups` must be numbers from 0 to {len(sums) - 1}; got {min(numbers)} to {max(numbers)}.")
    finite: dict[int, list[float]] = {}
    skipped: list[int] = []
    for loss, group in zip(losses.tolist(), numbers, strict=True):
        if math.isfinite(loss):
            finite.setdefault(group, []).append(loss)
        elif loss == math.inf:
            skipped.append(group)
    for group, own in finite.items():
        sums[group] += sum(own)
        counts[group] += min(len(own), count_at_most)
    pending.copy_(torch.tensor((sums, counts)))
    for group in skipped:
        num_skipped[group] += 1
    return losses.masked_fill(losses == math.inf, 0.0) if skipped else losses


def update_when_complete(
    log_weights: Tensor, pending: Tensor, exponent: Exponent, scales: Tensor | None = None
) -> None:
    sums, counts = pending.tolist()
    if 0.0 in counts:
        return
    if scales is not None:
        sums = [total * scale for total, scale in zip(sums, scales.tolist(), strict=True)]
    raised = [
        _bounded(log_weight + exponent(_bounded(total / count), math.exp(log_weight)))
        for log_weight, total, count in zip(log_weights.tolist(), sums, counts, strict=True)
    ]
    highest = max(raised)
    raised = [log_weight - highest for log_weight in raised]
    log_sum = math.log(sum(math.exp(log_weight) for log_weight in raised))
    log_weights.copy_(torch.tensor([log_weight - log_sum for log_weight in raised]))
    pending.zero_()


def weighted_sum(log_weights: Tensor, losses: Tensor, groups: Tensor, factor: float) -> Tensor:
    weights = [factor * math.exp(log_weight) for log_weight in log_weights.tolist()]
    return torch.dot(torch.tensor([weights[group] for group in groups.tolist()], dtype=losses.dtype), losses)


def _bounded(value: float) -> float:
    return max(-BOUND, min(BOUND, value))
