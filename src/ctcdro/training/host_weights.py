"""The group weights in host memory, for a sampler whose batches depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..objectives.objective import Objective


class HostWeights:
    """The weights of an objective, which the host reads without waiting for a device.

    An objective on the CPU is always read directly. The weights of one on a GPU are those after the last step, or
    after whatever else changed them since.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.prefers_shares = objective.prefers_shares
        self.refresh()

    @property
    def weights(self) -> Tensor:
        """(G,) on the CPU."""
        return self._objective.weights if self._objective.log_weights.is_cpu else self._latest

    def leave_weights_to_sampler(self) -> None:
        self._objective.leave_weights_to_sampler()

    def replace(self, weights: Sequence[float]) -> None:
        """Takes weights that the host has read already."""
        self._latest = torch.tensor(weights)

    def refresh(self) -> None:
        """Reads the weights from the device, after a validation or a restart has changed them."""
        self._latest = self._objective.weights.cpu()
