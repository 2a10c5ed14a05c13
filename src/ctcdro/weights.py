"""Group weights: the two update rules, and the state that gathers losses until every group has been seen.

The paper's symbols, as words:

    q        weights      (G,), on the simplex; kept as their logarithms, so that no loss, however large, overflows
    eta_q    step_size    of the weights, not of the model
    alpha    smoothing    0 or more; there are no magic values
    |G|      num_groups   written G in shapes
    gr_losses             `WeightState.loss_sums` and `.num_losses`: a list and its mean need no more

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
    return smoothed_log_update(weights.log(), losses, step_size=step_size, smoothing=smoothing).exp()


def exponential_update(weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    r"""One step of group DRO on the group weights (Algorithm 1 of the paper; Sagawa et al., 2020).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g)}{\sum_h q_h \exp(\eta_q L_h)}

    Example:
        >>> exponential_update(torch.tensor([0.5, 0.5]), torch.tensor([200.0, 100.0]), step_size=1e-3)
        tensor([0.5250, 0.4750])
    """
    _check_shapes(weights, losses)
    return exponential_log_update(weights.log(), losses, step_size=step_size).exp()


def smoothed_log_update(log_weights: Tensor, losses: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    """`smoothed_update` on logarithms."""
    tiny = torch.finfo(log_weights.dtype).tiny  # matters only without smoothing, to a weight that has vanished
    return _multiply(log_weights, step_size * losses / (log_weights.exp() + smoothing).clamp(min=tiny))


def exponential_log_update(log_weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    """`exponential_update` on logarithms."""
    return _multiply(log_weights, step_size * losses)


def _multiply(log_weights: Tensor, exponents: Tensor) -> Tensor:
    """Multiplies weights by exp(exponents) and normalises them, in log space."""
    # Far beyond every exponent of a real run; it keeps sums finite where a weight that has vanished meets no smoothing.
    bound = torch.finfo(log_weights.dtype).max / 8
    return torch.log_softmax(log_weights + exponents.clamp(-bound, bound), dim=0).clamp(min=-bound)


class WeightState(NamedTuple):
    """The weights, the losses that wait for their next update, and what the latest one saw. All of it has to survive a
    restart."""

    log_weights: Tensor
    """(G,)"""
    loss_sums: Tensor
    """(G,) sum of the losses that wait, for each group."""
    num_losses: Tensor
    """(G,) how many they are."""
    mean_losses: Tensor
    """(G,) the losses that the latest update saw."""
    num_updates: Tensor
    """() how many updates there were."""


def initial_state(num_groups: int) -> WeightState:
    """Uniform weights, and nothing waiting."""
    return WeightState(
        log_weights=torch.full((num_groups,), -math.log(num_groups)),
        loss_sums=torch.zeros(num_groups),
        num_losses=torch.zeros(num_groups),
        mean_losses=torch.zeros(num_groups),
        num_updates=torch.zeros((), dtype=torch.int64),
    )


def gather(state: WeightState, loss_sums: Tensor, num_losses: Tensor) -> WeightState:
    """Adds losses to those that wait (line 10 of Algorithm 2)."""
    return state._replace(loss_sums=state.loss_sums + loss_sums, num_losses=state.num_losses + num_losses)


def update_when_complete(state: WeightState, rule: UpdateRule) -> WeightState:
    """Updates the weights with each group's mean loss, if every group has losses that wait (lines 11 to 20 of Algorithm
    2).

    Both outcomes are computed and one is chosen on the device, since asking it which would make the host wait.

    Example:
        >>> rule = lambda log_weights, losses: exponential_log_update(log_weights, losses, step_size=0.001)
        >>> state = gather(initial_state(2), loss_sums=torch.tensor([200.0, 0.0]), num_losses=torch.tensor([1.0, 0.0]))
        >>> state = update_when_complete(state, rule)
        >>> state.num_updates, state.loss_sums
        (tensor(0), tensor([200.,   0.]))
        >>> state = gather(state, loss_sums=torch.tensor([400.0, 100.0]), num_losses=torch.tensor([1.0, 1.0]))
        >>> state = update_when_complete(state, rule)
        >>> state.num_updates, state.mean_losses, state.loss_sums
        (tensor(1), tensor([300., 100.]), tensor([0., 0.]))
    """
    complete = (state.num_losses > 0).all()
    means = state.loss_sums / state.num_losses  # not a number for a group without losses, but then it is not used
    return WeightState(
        log_weights=rule(state.log_weights, means).where(complete, state.log_weights),
        loss_sums=state.loss_sums.masked_fill(complete, 0.0),
        num_losses=state.num_losses.masked_fill(complete, 0.0),
        mean_losses=means.where(complete, state.mean_losses),
        num_updates=state.num_updates + complete,
    )


def update_at_once(state: WeightState, loss_sums: Tensor, num_losses: Tensor, rule: UpdateRule) -> WeightState:
    """Updates the weights with the mean losses of the groups that have any (lines 5 to 14 of Algorithm 1)."""
    means = loss_sums / num_losses.clamp(min=1)  # zero for a group without losses: only the normalisation moves it
    seen = num_losses > 0
    return state._replace(
        log_weights=rule(state.log_weights, means),
        mean_losses=means.where(seen, state.mean_losses),
        num_updates=state.num_updates + seen.any(),
    )


def _check_shapes(weights: Tensor, losses: Tensor) -> None:
    if weights.ndim != 1 or weights.shape != losses.shape:
        raise ValueError(
            "`weights` and `losses` must both have shape (num_groups,); "
            f"got {tuple(weights.shape)} and {tuple(losses.shape)}."
        )
