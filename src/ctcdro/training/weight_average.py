"""The mean of a model's weights over the last steps of training.

The mean is over all trained parameters and floating-point buffers, after every step, and is kept in float32. It is the
same in all processes, because their weights are; in sharded training, each process averages its part. Memory is needed
only once averaging has begun.

Reference:
    Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018,
    https://arxiv.org/abs/1803.05407
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn

from .sharding import local_part

_update_mean = get_swa_multi_avg_fn()


class WeightAverage:
    """The running mean of a model's weights.

    Args:
        model: the model; its parameters that are frozen when this is created are never averaged.
        num_steps: the length of training.
        last_fraction: fraction of the steps to average, at the end of training. None: no step.
    """

    def __init__(self, model: nn.Module, num_steps: int, last_fraction: float | None) -> None:
        self._model = model
        self._num_skipped = num_steps - (max(1, round(last_fraction * num_steps)) if last_fraction else 0)
        self._frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
        self._means: dict[str, Tensor] = {}
        self.num_steps = 0
        """Steps averaged so far."""

    def update(self, step: int) -> None:
        """Adds the weights after a step, counted from 1, if it is one of the last."""
        if step <= self._num_skipped:
            return
        weights = self._weights()
        if not self._means:
            self._means = {name: weight.float().clone() for name, weight in weights.items()}
        else:
            means = [local_part(mean) for mean in self._means.values()]
            _update_mean(means, [local_part(weight) for weight in weights.values()], self.num_steps)
        self.num_steps += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within this context, the model has the averaged weights; before averaging, its own."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def state_dict(self) -> dict[str, Tensor]:
        """The means by the names of the weights, and `num_steps`; empty before averaging."""
        return {**self._means, "num_steps": torch.tensor(self.num_steps)} if self._means else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        weights = self._weights() if state else {}
        self._means = {name: state[name].to(weight.device) for name, weight in weights.items()}
        self.num_steps = int(state["num_steps"]) if state else 0

    def _weights(self) -> dict[str, Tensor]:
        state = self._model.state_dict()
        return {
            name: tensor for name, tensor in state.items() if name not in self._frozen and tensor.is_floating_point()
        }

    @torch.no_grad()
    def _exchange(self) -> None:
        """Exchanges means and weights one by one, so that no third copy is needed."""
        weights = self._weights() if self._means else {}
        for name, weight in weights.items():
            before = weight.clone()
            weight.copy_(self._means[name])
            self._means[name].copy_(before)
