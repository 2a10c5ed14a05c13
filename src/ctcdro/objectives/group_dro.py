"""Group DRO: Algorithm 1 of the paper."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from .memberships import mean_of_groups
from .objective import Objective, Shared
from .weights import exponential_rule, not_negative


def group_dro(num_groups: int, *, step_size: float, **shared: Unpack[Shared]) -> Objective:
    r"""Group DRO (Algorithm 1 of the paper; Sagawa et al., 2020).

    Every batch updates the weights with the mean loss :math:`L_g` of each group in it. The result is :math:`\sum_g q_g
    L_g`, over the groups in the batch. The last line of Algorithm 1 as printed multiplies by :math:`q_g` once more;
    Sagawa et al. do not, and neither does this function.

    With several ranks, the batches of all ranks form one batch: the mean of the ranks' results is the result of one
    process with that batch.

    Args:
        num_groups: number of groups.
        step_size: eta_q in the paper, which tunes it over 1e-3 and 1e-4.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> objective = group_dro(num_groups=2, step_size=0.01)
        >>> objective(torch.tensor([30.0, 50.0, 20.0]), torch.tensor([0, 0, 1]))
        tensor(30.9967)
        >>> objective.weights
        tensor([0.5498, 0.4502])
    """
    return GroupDRO(num_groups, step_size=not_negative("step_size", step_size), **shared)


class GroupDRO(Objective):
    def __init__(self, num_groups: int, *, step_size: float, **shared: Unpack[Shared]) -> None:
        super().__init__(num_groups, settings={"step_size": step_size}, reduction="sum", **shared)
        self._rule = partial(exponential_rule, step_size=step_size)

    def leave_weights_to_sampler(self) -> None:
        raise ValueError(
            "Group DRO weights the mean loss of each group in a batch, so its weights cannot become shares of batches. "
            "Use another sampler, or `ctcdro.ctc_dro_unsmoothed`."
        )

    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        sums, numbers, _ = self.pending.clone()
        numbers.masked_fill_(numbers == 0, 1.0)
        self.log_weights.copy_(self._rule(self.log_weights, sums / numbers))  # zero for a group not in the batch
        self.pending.zero_()
        # Gradients are averaged over ranks, not summed, so multiply by the number of ranks.
        scales = mean_of_groups(self._num_ranks() * self.weights / numbers, groups)
        return torch.dot(scales.to(losses.dtype), losses)
