"""CTC-DRO (Algorithm 2 of the paper) and its ablation without smoothing."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

from torch import Tensor

from .objective import Objective, Reduction, Shared
from .rounds import RoundObjective
from .signals import SIGNALS, LossSignal
from .weights import Rule, exponential_rule, not_negative, smoothed_rule


class CTCDROOptions(Shared, total=False):
    """Arguments that `ctc_dro`, `ctc_dro_unsmoothed` and `CTCDROLoss` share."""

    reduction: Reduction
    """ "sum" (the paper) or "mean", which divides the result by the number of losses that were not skipped (the
    authors' code). The weights follow the sum in either case. With batches of unequal size, the two differ in more
    than a factor."""
    signal: LossSignal
    """Quantity that the weights compare: "loss_per_second" (the paper) or "loss_per_character", for which each call
    needs the number of characters. The gradient is the same."""
    warmup_batches: int
    """Batches, over all ranks, during which the weights stay uniform. While a model predicts only blanks, losses
    reflect transcript length rather than difficulty."""


def ctc_dro(num_groups: int, *, step_size: float, smoothing: float, **options: Unpack[CTCDROOptions]) -> Objective:
    r"""CTC-DRO (Algorithm 2 of the paper).

    For each batch, the sum of its losses is added to its group's pending sums. Once every group has at least one, the
    weights are updated with the group means (`ctcdro.smoothed_update`), and the pending sums are cleared. The batch is
    then weighted with the new weights: :math:`|G| \sum_i q_{g(i)} \ell_i`. In a batch with several groups, the sum of
    each group is one entry.

    Use batches of equal total duration (`ctcdro.LengthMatchedBatchSampler`); otherwise sums are not comparable.

    Args:
        num_groups: number of groups.
        step_size: eta_q in the paper, which tunes it over 1e-3 and 1e-4.
        smoothing: alpha in the paper, which tunes it over 0.1, 0.5 and 1.
        **options: `reduction`, `signal`, `warmup_batches`, `group_names`, `process_group`; see `CTCDROOptions`.

    Example:
        >>> import torch
        >>> objective = ctc_dro(num_groups=2, step_size=1e-3, smoothing=0.5)
        >>> objective(torch.tensor([120.0, 80.0]), torch.tensor([0, 0]))
        tensor(200.)
        >>> objective(torch.tensor([60.0, 40.0]), torch.tensor([1, 1]))
        tensor(95.0042)
        >>> objective.weights
        tensor([0.5250, 0.4750])
    """
    step_size, smoothing = not_negative("step_size", step_size), not_negative("smoothing", smoothing)
    rule = partial(smoothed_rule, step_size=step_size, smoothing=smoothing)
    return CTCDRO(num_groups, rule=rule, **options)


def ctc_dro_unsmoothed(num_groups: int, *, step_size: float, **options: Unpack[CTCDROOptions]) -> Objective:
    """CTC-DRO without smoothing: `ctc_dro` with the weight update of `group_dro` (ablation "- Smooth" in the paper).

    Example:
        >>> import torch
        >>> objective = ctc_dro_unsmoothed(num_groups=2, step_size=1e-3)
        >>> objective(torch.tensor([200.0, 100.0]), torch.tensor([0, 1]))
        tensor(304.9958)
    """
    rule = partial(exponential_rule, step_size=not_negative("step_size", step_size))
    return CTCDRO(num_groups, rule=rule, **options)


class CTCDRO(RoundObjective):
    def __init__(
        self,
        num_groups: int,
        *,
        rule: partial[Tensor],
        signal: LossSignal = "loss_per_second",
        warmup_batches: int = 0,
        **shared: Any,
    ) -> None:
        if signal not in SIGNALS:
            raise ValueError(f"`signal` must be one of {', '.join(SIGNALS)}; got {signal!r}.")
        settings = {**rule.keywords, "signal": signal, "warmup_batches": warmup_batches}
        super().__init__(num_groups, settings=settings, warmup_batches=warmup_batches, **shared)
        self.needs_characters = signal == "loss_per_character"
        self._rule: Rule = rule
        self._signal = SIGNALS[signal]

    def _next_state(self, pending: Tensor) -> dict[str, Tensor]:
        return {"log_weights": self._rule(self.log_weights.to(pending.dtype), self._signal(pending))}
