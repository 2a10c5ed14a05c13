"""Group weights: the two update rules, as pure functions.

A rule multiplies each weight by the exponential of an *exponent*, and normalizes. Exponents are what rules differ in,
and are written once, for numbers and tensors alike.

The paper's symbols, as words:

    q        weights      (G,), on the simplex; kept as their logarithms, so that no loss, however large, overflows
    eta_q    step_size    of the weights, not of the model
    alpha    smoothing    0 or more; there are no magic values
    |G|      num_groups   written G in shapes
"""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ..runtime.arguments import is_number

Number = TypeVar("Number", float, Tensor)

# Losses, and logarithms of weights, stay within this, so that sums and products of them are finite. No run that is any
# good comes near it.
BOUND = torch.finfo(torch.float32).max / 8


class Exponent(Protocol):
    """(loss, weight) -> exponent, element by element."""

    def __call__(self, loss: Number, weight: Number) -> Number: ...


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
    step_size, smoothing = not_negative("step_size", step_size), not_negative("smoothing", smoothing)
    return _multiply(weights, smoothed_exponent(losses, weights, step_size=step_size, smoothing=smoothing))


def exponential_update(weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    r"""One step of group DRO on the group weights (Algorithm 1 of the paper; Sagawa et al., 2020).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g)}{\sum_h q_h \exp(\eta_q L_h)}

    Example:
        >>> exponential_update(torch.tensor([0.5, 0.5]), torch.tensor([200.0, 100.0]), step_size=1e-3)
        tensor([0.5250, 0.4750])
    """
    _check_shapes(weights, losses)
    step_size = not_negative("step_size", step_size)
    return _multiply(weights, exponential_exponent(losses, weights, step_size=step_size))


def smoothed_exponent(loss: Number, weight: Number, *, step_size: float, smoothing: float) -> Number:
    """The exponent of `smoothed_update`."""
    # The smallest number matters only without smoothing, to a weight that has vanished.
    return step_size * loss / (weight + max(smoothing, torch.finfo(torch.float32).tiny))


def exponential_exponent(loss: Number, weight: Number, *, step_size: float) -> Number:
    """The exponent of `exponential_update`."""
    return step_size * loss


def add_and_normalize(log_weights: Tensor, exponents: Tensor) -> Tensor:
    """Multiplies weights by the exponentials of exponents and normalizes them, in logarithms."""
    return torch.log_softmax((log_weights + exponents).clamp(-BOUND, BOUND), dim=0)


def _multiply(weights: Tensor, exponents: Tensor) -> Tensor:
    return add_and_normalize(weights.log().clamp(min=-BOUND), exponents).exp()


def not_negative(name: str, value: float) -> float:
    """The value of a setting as a float; raises unless it is a finite number, zero or more."""
    if not (is_number(value) and math.isfinite(value) and value >= 0):
        raise ValueError(f"`{name}` must be a finite number, zero or more; got {value!r}.")
    return float(value)


def _check_shapes(weights: Tensor, losses: Tensor) -> None:
    if weights.ndim != 1 or weights.shape != losses.shape:
        raise ValueError(
            "`weights` and `losses` must both have shape (num_groups,); "
            f"got {tuple(weights.shape)} and {tuple(losses.shape)}."
        )
