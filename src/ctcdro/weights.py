"""Group weights: the two update rules, and the state that gathers losses until every group has been seen.

The paper's symbols, as words:

    q        weights      (G,), on the simplex; kept as their logarithms, so that no loss, however large, overflows
    eta_q    step_size    of the weights, not of the model
    alpha    smoothing    0 or more; there are no magic values
    |G|      num_groups   written G in shapes
    gr_losses             `WeightState.totals`; of each list its sum and its length are enough

All functions are pure, know nothing of processes, and never read a value back from the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

UpdateRule: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(log weights, mean loss of each group) -> new log weights; both of shape (G,)."""


def smoothed_update(weights: Tensor, losses: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    r"""One step of CTC-DRO on the group weights (equation 9 of the paper, line 14 of its Algorithm 2).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g / (q_g + \alpha))}{\sum_h q_h \exp(\eta_q L_h / (q_h + \alpha))}

    A group that has much weight already moves less, so no group takes all of it. Where the closed form is positive for
    every group, repeated steps with constant losses and a small step size lead to :math:`q_g + \alpha \propto L_g`;
    elsewhere the weights of the groups with the smallest losses go to zero. With `smoothing` large and `step_size` in
    proportion to it, this is `exponential_update`.

    Args:
        weights: (G,) on the simplex.
        losses: (G,) one loss for each group.
        step_size: eta_q of the paper, which tries 1e-3 and 1e-4.
        smoothing: alpha of the paper, which tries 0.1, 0.5 and 1.

    Returns:
        (G,) new weights, on the simplex.

    Example:
        >>> weights = torch.tensor([0.5, 0.5])
        >>> smoothed_update(weights, torch.tensor([200.0, 100.0]), step_size=1e-3, smoothing=0.5)
        tensor([0.5250, 0.4750])
    """
    _check_shapes(weights, losses)
    return smoothed_log_update(_bounded(weights.log()), losses, step_size=step_size, smoothing=smoothing).exp()


def exponential_update(weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    r"""One step of group DRO on the group weights (Algorithm 1 of the paper; Sagawa et al., 2020).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g)}{\sum_h q_h \exp(\eta_q L_h)}

    Example:
        >>> exponential_update(torch.tensor([0.5, 0.5]), torch.tensor([200.0, 100.0]), step_size=1e-3)
        tensor([0.5250, 0.4750])
    """
    _check_shapes(weights, losses)
    return exponential_log_update(_bounded(weights.log()), losses, step_size=step_size).exp()


def smoothed_log_update(log_weights: Tensor, losses: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    """`smoothed_update` on logarithms."""
    # The smallest number matters only without smoothing, to a weight that has vanished.
    divisor = log_weights.exp() + max(smoothing, torch.finfo(log_weights.dtype).tiny)
    return _normalise(torch.addcdiv(log_weights, losses, divisor, value=step_size))


def exponential_log_update(log_weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    """`exponential_update` on logarithms."""
    return _normalise(torch.add(log_weights, losses, alpha=step_size))


def _normalise(log_weights: Tensor) -> Tensor:
    return torch.log_softmax(_bounded(log_weights), dim=0)


def _bounded(log_weights: Tensor) -> Tensor:
    """Keeps infinite exponents, and sums of them, finite; the bound is far beyond what a real run reaches."""
    bound = torch.finfo(log_weights.dtype).max / 8
    return log_weights.clamp(-bound, bound)


class WeightState(NamedTuple):
    """The weights, and the losses that wait for their next update: what has to survive a restart."""

    log_weights: Tensor
    """(G,)"""
    totals: Tensor
    """(3, G): for each group the sum of the losses that wait, how many they are, and how many ever were not finite."""


def initial_state(num_groups: int) -> WeightState:
    """Uniform weights, and nothing waiting."""
    return WeightState(torch.full((num_groups,), -math.log(num_groups)), torch.zeros(3, num_groups))


def update_when_complete(state: WeightState, rule: UpdateRule) -> WeightState:
    """Updates the weights with each group's mean loss, if every group has one (lines 11 to 20 of Algorithm 2).

    Both outcomes are computed and one is chosen on the device, since asking it which would make the host wait.

    Example:
        >>> rule = lambda log_weights, losses: exponential_log_update(log_weights, losses, step_size=0.001)
        >>> uniform = initial_state(2).log_weights
        >>> waiting = torch.tensor([[600.0, 0.0], [2.0, 0.0], [0.0, 0.0]])  # two losses of group 0, none of group 1
        >>> update_when_complete(WeightState(uniform, waiting), rule).log_weights.exp()
        tensor([0.5000, 0.5000])
        >>> waiting = torch.tensor([[600.0, 100.0], [2.0, 1.0], [0.0, 0.0]])
        >>> update_when_complete(WeightState(uniform, waiting), rule).log_weights.exp()
        tensor([0.5498, 0.4502])
    """
    sums, numbers, _ = state.totals
    complete = numbers.all()
    means = sums / numbers  # not a number for a group without losses, but then it is not used
    log_weights = rule(state.log_weights, means).where(complete, state.log_weights)
    totals = state.totals.clone()
    totals[:2].masked_fill_(complete, 0.0)
    return WeightState(log_weights, totals)


def _check_shapes(weights: Tensor, losses: Tensor) -> None:
    if weights.ndim != 1 or weights.shape != losses.shape:
        raise ValueError(
            "`weights` and `losses` must both have shape (num_groups,); "
            f"got {tuple(weights.shape)} and {tuple(losses.shape)}."
        )
