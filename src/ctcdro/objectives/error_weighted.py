"""Error-weighted training: group weights in proportion to the error rates of the groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from .objective import Objective, Reduction, Shared
from .rounds import RoundObjective
from .signals import ErrorSignal, estimated_error_rate, loss_per_second
from .weights import not_negative, proportional_rule

# Of the moving average of estimated error rates, per round: about the last 20 rounds count.
DECAY = 0.95

# If the lowest average error rate is above this one, the model predicts only blanks.
BLANK_RATE = 0.97


class ErrorWeightedOptions(Shared, total=False):
    """Arguments of `error_weighted` that have no effect on the weights."""

    reduction: Reduction
    """ "sum" or "mean" of the losses of a batch, as for `ctc_dro`."""


def error_weighted(
    num_groups: int,
    *,
    power: float = 1.5,
    signal: ErrorSignal = "loss_per_character",
    **options: Unpack[ErrorWeightedOptions],
) -> Objective:
    r"""Weights in proportion to the error rate of each group: :math:`q_g \propto e_g^p`. Nothing has to be tuned.

    The loss of a batch is :math:`|G| \sum_i q_{g(i)} \ell_i`, as in CTC-DRO. The error rates come from one of two
    signals:

    * "loss_per_character" estimates them from the training losses (`signals.estimated_error_rate`), once per round, as
      a moving average over about 20 rounds. Each call needs the number of characters.
    * "error_rate": pass character error rates on held-out data to `update_error_rates` after each validation.

    While a model predicts only blanks, all groups have an error rate of 1, which says nothing about them. Until the
    first group improves, "loss_per_character" therefore uses weights in proportion to the loss per second, so that the
    groups with the most characters come first. "error_rate" keeps the weights equal.

    Args:
        num_groups: number of groups.
        power: 0 for equal weights; larger values move more weight to the worst groups, at the expense of the mean.
        signal: where the error rates come from.
        **options: `reduction`, `group_names` and `process_group`; see `ErrorWeightedOptions`.

    Example:
        >>> objective = error_weighted(num_groups=2, signal="error_rate")
        >>> objective.update_error_rates([0.6, 0.2])
        >>> objective.weights
        tensor([0.8386, 0.1614])
        >>> objective(torch.tensor([10.0, 20.0]), torch.tensor([0, 1]))
        tensor(23.2278)
    """
    power = not_negative("power", power)
    if signal == "loss_per_character":
        return ErrorWeighted(num_groups, power=power, **options)
    if signal == "error_rate":
        return HeldOutErrorWeighted(num_groups, power=power, **options)
    raise ValueError(f"`signal` must be loss_per_character or error_rate; got {signal!r}.")


class ErrorWeighted(RoundObjective):
    needs_characters = True
    prefers_shares = True

    error_rates: Tensor
    """(G,) moving average of the estimated error rates."""

    def __init__(self, num_groups: int, *, power: float, **shared: Any) -> None:
        super().__init__(num_groups, settings={"power": power, "signal": "loss_per_character"}, **shared)
        self._power = power
        self.register_buffer("error_rates", torch.ones(self.num_groups, dtype=torch.float32))

    def _next_state(self, pending: Tensor) -> dict[str, Tensor]:
        error_rates = DECAY * self.error_rates.to(pending.dtype) + (1 - DECAY) * estimated_error_rate(pending)
        losses = loss_per_second(pending)
        predicts_only_blanks = error_rates.min() > BLANK_RATE
        log_weights = proportional_rule(error_rates, power=self._power).where(
            ~predicts_only_blanks, proportional_rule(losses / losses.max(), power=1.0)
        )
        return {"error_rates": error_rates, "log_weights": log_weights}


class HeldOutErrorWeighted(Objective):
    needs_error_rates = True
    prefers_shares = True

    error_rates: Tensor
    """(G,) the latest error rates."""

    def __init__(self, num_groups: int, *, power: float, **shared: Any) -> None:
        super().__init__(num_groups, settings={"power": power, "signal": "error_rate"}, **shared)
        self._power = power
        self.register_buffer("error_rates", torch.ones(self.num_groups, dtype=torch.float32))

    def update_error_rates(self, rates: Tensor | Sequence[float] | Mapping[str, float]) -> None:
        """Sets the weights from the error rates of all groups on held-out data. All ranks must pass the same rates.

        Args:
            rates: (G,) fractions, ordered by group number; or by group name, with `group_names`.
        """
        if isinstance(rates, Mapping):
            rates = self._by_number(rates)
        values = torch.as_tensor(rates, dtype=torch.float32)
        if values.shape != self.error_rates.shape or not bool(((values >= 0) & (values < math.inf)).all()):
            raise ValueError(
                f"`rates` must be {self.num_groups} finite, non-negative numbers, one per group; got {rates!r:.200}."
            )
        self.error_rates.copy_(values)
        self.log_weights.copy_(proportional_rule(values.double(), power=self._power))

    def _by_number(self, rates: Mapping[str, float]) -> list[float]:
        names = self.group_names or []
        missing = [name for name in names if name not in rates]
        if missing or not names:
            found = "this objective has no group names" if not names else f"{', '.join(missing)} missing"
            raise ValueError(f"`rates` must have the error rate of every group by name; {found}.")
        return [rates[name] for name in names]

    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        self.pending.zero_()
        return self._weighted_sum(losses, groups)
