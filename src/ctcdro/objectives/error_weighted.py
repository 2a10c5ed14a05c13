"""Error-weighted training: group weights in proportion to the error rates of the groups."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from .numbers_by_group import Rates, numbers_by_group
from .objective import Objective, Reduction, Shared
from .rounds import RoundObjective
from .signals import ErrorSignal, estimated_error_rate, loss_per_second
from .weights import budget_use, not_negative, proportional_rule

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
    max_relative_loss: float = 0.05,
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

    A guard protects groups with low error rates. Pass the error rates on held-out data, and those of a baseline at the
    same number of batches, to `update_budgets` after each validation. A group whose error rate is more than
    `max_relative_loss` above that of the baseline counts like the worst group until it is back
    (`weights.proportional_weights`).

    Args:
        num_groups: number of groups.
        power: 0 for equal weights; larger values move more weight to the worst groups, at the expense of the mean.
        signal: where the error rates come from.
        max_relative_loss: relative increase of the error rate of any group that `update_budgets` allows.
        **options: `reduction`, `group_names` and `process_group`; see `ErrorWeightedOptions`.

    Example:
        >>> objective = error_weighted(num_groups=2, signal="error_rate")
        >>> objective.update_error_rates([0.6, 0.2])
        >>> objective.weights
        tensor([0.8386, 0.1614])
        >>> objective(torch.tensor([10.0, 20.0]), torch.tensor([0, 1]))
        tensor(23.2278)
    """
    classes = {"loss_per_character": ErrorWeighted, "error_rate": HeldOutErrorWeighted}
    if signal not in classes:
        raise ValueError(f"`signal` must be loss_per_character or error_rate; got {signal!r}.")
    settings = {
        "power": not_negative("power", power),
        "signal": signal,
        "max_relative_loss": not_negative("max_relative_loss", max_relative_loss),
    }
    return classes[signal](num_groups, settings=settings, **options)


class GuardedObjective(Objective):
    """The state that both signals share: error rates, and how much of its budget each group has used."""

    prefers_shares = True

    error_rates: Tensor
    """(G,) moving average of the estimated error rates, or the latest ones."""
    budget_use: Tensor
    """(G,) result of `weights.budget_use`; 0 without a guard."""

    def __init__(self, num_groups: int, **options: Any) -> None:
        super().__init__(num_groups, **options)
        self._power: float = self.settings["power"]
        self.register_buffer("error_rates", torch.ones(self.num_groups, dtype=torch.float32))
        self.register_buffer("budget_use", torch.zeros(self.num_groups, dtype=torch.float32))

    def update_budgets(self, rates: Rates, baseline_rates: Rates) -> None:
        """Guards the weights: a group that has used up its budget counts like the worst group until it is back.

        Weights from training losses change with the next round of groups. All ranks must pass the same rates.

        Args:
            rates: (G,) error rates on held-out data as fractions, ordered by group number; or by group name, with
                `group_names`.
            baseline_rates: (G,) those of a baseline at the same number of batches, on the same data.
        """
        own, baseline = self._by_group("rates", rates), self._by_group("baseline_rates", baseline_rates)
        limit = self.settings["max_relative_loss"]
        self.budget_use.copy_(budget_use(own.double(), baseline.double(), max_relative_loss=limit))

    def _by_group(self, name: str, values: Rates) -> Tensor:
        return numbers_by_group(name, values, self.num_groups, self.group_names)


class ErrorWeighted(GuardedObjective, RoundObjective):
    needs_characters = True

    def _next_state(self, pending: Tensor) -> dict[str, Tensor]:
        error_rates = DECAY * self.error_rates.to(pending.dtype) + (1 - DECAY) * estimated_error_rate(pending)
        losses = loss_per_second(pending)
        predicts_only_blanks = error_rates.min() > BLANK_RATE
        log_weights = proportional_rule(error_rates, self.budget_use, power=self._power).where(
            ~predicts_only_blanks, proportional_rule(losses / losses.max(), self.budget_use, power=1.0)
        )
        return {"error_rates": error_rates, "log_weights": log_weights}


class HeldOutErrorWeighted(GuardedObjective):
    needs_error_rates = True

    def update_error_rates(self, rates: Rates) -> None:
        """Sets the weights from the error rates of all groups on held-out data. All ranks must pass the same rates.

        Args:
            rates: (G,) fractions, ordered by group number; or by group name, with `group_names`.
        """
        self.error_rates.copy_(self._by_group("rates", rates))
        self._update_weights()

    def update_budgets(self, rates: Rates, baseline_rates: Rates) -> None:
        super().update_budgets(rates, baseline_rates)
        self._update_weights()

    def _update_weights(self) -> None:
        rates = self.error_rates.double()
        self.log_weights.copy_(proportional_rule(rates, self.budget_use, power=self._power))
