"""Update rules for the group weights: pure functions of the weights and a signal.

A rule takes the log weights and the signal of each group, and returns new log weights. In log space no loss can
overflow, however large. `proportional_rule` needs no previous weights; `budget_use` guards it.

The paper's symbols and the names used here:

    q        weights      (G,), on the simplex
    eta_q    step_size    of the weights, not of the model
    alpha    smoothing    0 or more
    |G|      num_groups   written G in shapes
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from ..runtime.arguments import is_number

# Signals and log weights are clamped to this bound, so that their sums and products are finite. Normal training never
# reaches it.
BOUND = torch.finfo(torch.float32).max / 8

# Lowest error rate in `proportional_weights` relative to the highest, so that no group loses all its weight.
MIN_RELATIVE_RATE = 0.05

# Highest value of `budget_use`: a group over its budget counts at most twice as much as the worst group.
MAX_BUDGET_USE = 2.0


class Rule(Protocol):
    """(G,) log weights and (G,) signal -> (G,) new log weights."""

    def __call__(self, log_weights: Tensor, signal: Tensor) -> Tensor: ...


def smoothed_update(weights: Tensor, losses: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    r"""One step of CTC-DRO on the group weights (equation 10 of the paper, line 14 of its Algorithm 2).

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta_q L_g / (q_g + \alpha))}{\sum_h q_h \exp(\eta_q L_h / (q_h + \alpha))}

    The larger a group's weight, the smaller its step, so no group takes all the weight. Repeated steps with constant
    losses and a small step size converge to :math:`q_g + \alpha \propto L_g` if this is positive for every group;
    otherwise the weights of the groups with the smallest losses go to zero. For large `smoothing`, with `step_size` in
    proportion to it, this is `exponential_update`.

    Args:
        weights: (G,) on the simplex.
        losses: (G,) one loss per group.
        step_size: eta_q in the paper, which tunes it over 1e-3 and 1e-4.
        smoothing: alpha in the paper, which tunes it over 0.1, 0.5 and 1.

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


def proportional_weights(error_rates: Tensor, *, power: float = 1.5, budget_use: Tensor | None = None) -> Tensor:
    r"""Weights in proportion to a power of the error rate of each group (`error_weighted`).

    .. math:: q_g = \frac{u_g^p}{\sum_h u_h^p}, \qquad
        u_g = \max\Bigl(\frac{e_g}{\max_h e_h}, \; b_g \text{ if } b_g > 1\Bigr)

    Error rates above 1 count as 1, and those below a twentieth of the highest count as a twentieth of it. With a power
    of 1.5, the smallest weight is therefore at least 1% of the largest. There is no step size.

    The second term is a guard: a group that has used up its budget (`budget_use`) counts like the worst group, or more.

    Args:
        error_rates: (G,) one per group, as fractions.
        power: 0 for equal weights; larger values move more weight to the worst groups.
        budget_use: (G,) b, the result of `budget_use`. None: no guard.

    Returns:
        (G,) weights, on the simplex.

    Example:
        >>> proportional_weights(torch.tensor([0.9, 0.3, 0.3]), power=1.0)
        tensor([0.6000, 0.2000, 0.2000])
        >>> proportional_weights(torch.tensor([0.9, 0.3, 0.3]), power=1.0, budget_use=torch.tensor([0.9, 1.0, 1.1]))
        tensor([0.4110, 0.1370, 0.4521])
    """
    return proportional_rule(error_rates, budget_use, **_checked(power=power)).exp()


def budget_use(error_rates: Tensor, baseline_rates: Tensor, *, max_relative_loss: float = 0.05) -> Tensor:
    r"""The error rate of each group relative to the highest that its budget allows; above 1, the budget is used up.

    .. math:: b_g = \min\Bigl(2, \; \frac{d_g}{(1 + \epsilon) \, d^0_g}\Bigr)

    The limit of 2 also applies if the baseline makes no errors: any error then uses up the budget, and no error is 0.

    Args:
        error_rates: (G,) d, on held-out data.
        baseline_rates: (G,) of a baseline, on the same data.
        max_relative_loss: epsilon, the relative increase that is allowed.

    Returns:
        (G,) from 0 to 2.

    Example:
        >>> budget_use(torch.tensor([0.21, 0.44]), torch.tensor([0.2, 0.4]), max_relative_loss=0.05)
        tensor([1.0000, 1.0476])
    """
    _checked(max_relative_loss=max_relative_loss)
    allowed = ((1 + max_relative_loss) * baseline_rates).clamp(min=torch.finfo(torch.float32).tiny)
    return (error_rates / allowed).clamp(max=MAX_BUDGET_USE)


def smoothed_rule(log_weights: Tensor, signal: Tensor, *, step_size: float, smoothing: float) -> Tensor:
    """`smoothed_update` in log space."""
    # The smallest positive number matters only without smoothing, for a weight that underflowed to zero.
    denominator = log_weights.exp() + max(smoothing, torch.finfo(torch.float32).tiny)
    return _normalize(log_weights + step_size * signal.clamp(-BOUND, BOUND) / denominator)


def exponential_rule(log_weights: Tensor, signal: Tensor, *, step_size: float) -> Tensor:
    """`exponential_update` in log space."""
    return _normalize(log_weights + step_size * signal.clamp(-BOUND, BOUND))


def proportional_rule(error_rates: Tensor, budget_use: Tensor | None = None, *, power: float) -> Tensor:
    """`proportional_weights` in log space."""
    rates = error_rates.clamp(max=1.0)
    if budget_use is not None:
        # Relative to the highest rate. If no budget is used up, the rates do not change, not even in their last bit.
        rates = rates.maximum(budget_use.where(budget_use > 1, 0.0).to(rates.dtype) * rates.max())
    floor = MIN_RELATIVE_RATE * rates.max().clamp(min=torch.finfo(torch.float32).tiny)
    return _normalize(power * rates.maximum(floor).log())


def not_negative(name: str, value: float) -> float:
    """Converts the value of a setting to a float; rejects anything but finite, non-negative numbers."""
    if not (is_number(value) and math.isfinite(value) and value >= 0):
        raise ValueError(f"`{name}` must be a finite, non-negative number; got {value!r}.")
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
