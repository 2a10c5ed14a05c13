"""Rules: how group weights follow a signal, as pure functions.

A rule takes the logarithms of the weights and the signal of each group, and returns new logarithms. Logarithms keep
every loss, however large, from overflowing.

The paper's symbols, as words:

    q        weights      (G,), on the simplex
    eta_q    step_size    of the weights, not of the model
    alpha    smoothing    0 or more; there are no magic values
    |G|      num_groups   written G in shapes
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from ..runtime.arguments import is_number

# Signals and logarithms of weights stay within this bound, so that sums and products of them are finite. No useful run
# comes near it.
BOUND = torch.finfo(torch.float32).max / 8


class Rule(Protocol):
    """(G,) logarithms of weights and (G,) signal -> (G,) logarithms of the new weights."""

    def __call__(self, log_weights: Tensor, signal: Tensor) -> Tensor: ...


def smoothed_update(weights: Tensor, losses: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    r"""One step of CTC-DRO on the group weights (equation 10 of the paper, line 14 of its Algorithm 2).

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
    return smoothed_rule(_log(weights), losses, **_checked(step_size=step_size, smoothing=smoothing)).exp()


def exponential_update(weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    r"""One step of group DRO on the group weights (Algorithm 1 of the paper; Sagawa et al., 2020).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g)}{\sum_h q_h \exp(\eta_q L_h)}

    Example:
        >>> exponential_update(torch.tensor([0.5, 0.5]), torch.tensor([200.0, 100.0]), step_size=1e-3)
        tensor([0.5250, 0.4750])
    """
    _check_shapes(weights, losses)
    return exponential_rule(_log(weights), losses, **_checked(step_size=step_size)).exp()


def smoothed_rule(log_weights: Tensor, signal: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    """`smoothed_update`, in logarithms."""
    # The smallest positive number matters only without smoothing, to a weight that has vanished.
    denominator = log_weights.exp() + max(smoothing, torch.finfo(torch.float32).tiny)
    return _normalize(log_weights + step_size * signal.clamp(-BOUND, BOUND) / denominator)


def exponential_rule(log_weights: Tensor, signal: Tensor, *, step_size: float) -> Tensor:
    """`exponential_update`, in logarithms."""
    return _normalize(log_weights + step_size * signal.clamp(-BOUND, BOUND))


def not_negative(name: str, value: float) -> float:
    """The value of a setting as a float; raises unless it is a finite number, zero or more."""
    if not (is_number(value) and math.isfinite(value) and value >= 0):
        raise ValueError(f"`{name}` must be a finite number, zero or more; got {value!r}.")
    return float(value)


def _checked(**settings: float) -> dict[str, float]:
    return {name: not_negative(name, value) for name, value in settings.items()}


def _log(weights: Tensor) -> Tensor:
    return weights.log().clamp(min=-BOUND)


def _normalize(log_weights: Tensor) -> Tensor:
    return torch.log_softmax(log_weights.clamp(-BOUND, BOUND), dim=0)


def _check_shapes(weights: Tensor, losses: Tensor) -> None:
    if weights.ndim != 1 or weights.shape != losses.shape:
        raise ValueError(
            "`weights` and `losses` must both have shape (num_groups,); "
            f"got {tuple(weights.shape)} and {tuple(losses.shape)}."
        )
