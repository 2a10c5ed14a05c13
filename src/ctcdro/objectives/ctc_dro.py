"""CTC-DRO (Algorithm 2 of the paper) and its ablation without smoothing."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor

from ..runtime.arguments import is_whole_number
from .objective import Objective, Reduction, Shared
from .pending_losses import weighted_sum
from .signals import SIGNALS, SignalName
from .weights import Rule, exponential_rule, not_negative, smoothed_rule

# Groups without a pending entry are reported once the others have this many on average.
ABSENT_AFTER = 100


class CTCDROOptions(Shared, total=False):
    """Arguments that `ctc_dro`, `ctc_dro_unsmoothed` and `CTCDROLoss` share."""

    reduction: Reduction
    """ "sum" (the paper) or "mean", which divides the result by the number of losses that were not skipped (the
    authors' code). The weights follow the sum in either case. With batches of unequal size, the two differ in more
    than a factor."""
    signal: SignalName
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
        >>> objective = ctc_dro_unsmoothed(num_groups=2, step_size=1e-3)
        >>> objective(torch.tensor([200.0, 100.0]), torch.tensor([0, 1]))
        tensor(304.9958)
    """
    rule = partial(exponential_rule, step_size=not_negative("step_size", step_size))
    return CTCDRO(num_groups, rule=rule, **options)


class CTCDRO(Objective):
    max_entries = 1.0  # all losses of a group in one batch are summed into one entry

    num_batches: Tensor
    """() batches of all ranks in training mode; counted only if there is a warm-up."""

    def __init__(
        self,
        num_groups: int,
        *,
        rule: partial[Tensor],
        signal: SignalName = "loss_per_second",
        warmup_batches: int = 0,
        **shared: Any,
    ) -> None:
        if signal not in SIGNALS:
            raise ValueError(f"`signal` must be one of {', '.join(SIGNALS)}; got {signal!r}.")
        if not is_whole_number(warmup_batches) or warmup_batches < 0:
            raise ValueError(f"`warmup_batches` must be a non-negative integer; got {warmup_batches!r}.")
        settings = {**rule.keywords, "signal": signal, "warmup_batches": warmup_batches}
        super().__init__(num_groups, settings=settings, **shared)
        self.needs_characters = signal == "loss_per_character"
        self._rule: Rule = rule
        self._signal, self._warmup_batches = SIGNALS[signal], int(warmup_batches)
        self.register_buffer("num_batches", torch.zeros((), dtype=torch.int64))

    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        if on_host:
            self._update_on_host()
        else:
            self._update_on_device()
        if self._warmup_batches:
            self.num_batches.add_(self._num_ranks())
        return weighted_sum(self.log_weights, losses, groups, factor=self.num_groups)

    def _update_on_device(self) -> None:
        """Lines 11 to 20 of Algorithm 2. Both branches are computed; the device selects one."""
        is_complete, is_warm = self.pending[1].all(), self.num_batches >= self._warmup_batches
        updated = self._rule(self.log_weights, self._signal(self.pending))
        self.log_weights.copy_(updated.where(is_complete & is_warm, self.log_weights))
        self.pending.masked_fill_(is_complete | ~is_warm, 0.0)

    def _update_on_host(self) -> None:
        """Like `_update_on_device`, but in host memory and double precision, and only if an update is due."""
        is_warm = not self._warmup_batches or int(self.num_batches) >= self._warmup_batches
        _, entries, _ = self.pending.tolist()
        if is_warm and 0.0 not in entries:
            self.log_weights.copy_(self._rule(self.log_weights.double(), self._signal(self.pending.double())))
            self.pending.zero_()
        elif not is_warm:
            self.pending.zero_()
        elif "absent" not in self._warned_of:
            self._warn_of_absent_groups(entries)

    def _warn_of_absent_groups(self, entries: list[float]) -> None:
        if sum(entries) >= ABSENT_AFTER * self.num_groups:
            absent = [group for group, number in enumerate(entries) if number == 0]
            self._warn_once(
                "absent",
                f"Group weights have not changed for at least {max(entries):,.0f} batches, because these groups had no "
                f"finite loss: {self._names(absent)}. An update needs every group. Check their data, sample "
                "them more often, or create the objective without them.",
            )
