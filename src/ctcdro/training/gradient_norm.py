"""Gradient clipping, with a limit that is scaled so that it does not undo the group weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .run import Run
    from .step_log import StepFigures


def gradient_norm(run: Run) -> Tensor:
    """() the norm of the gradient on the device, over all processes if the model is sharded."""
    gradients = [parameter.grad for parameter in _trained(run) if parameter.grad is not None]
    total = torch.nn.utils.get_total_norm(gradients)
    return total.full_tensor() if hasattr(total, "full_tensor") else total


def clip_gradient(run: Run, norm: Tensor, figures: StepFigures) -> None:
    """Clips the gradient; rejects one that is not finite. `norm` is its norm, which is also one of the figures.

    The limit is multiplied by the step's mean weight relative to uniform weights, so that the weight of a group still
    has an effect if every step is clipped. If a sampler applies the weights, the limit stays the same.
    """
    if not math.isfinite(figures.gradient_norm):
        raise FloatingPointError(
            f"Step {run.progress.step + 1}: the gradient norm is {figures.gradient_norm}. The last checkpoint is "
            "intact. Start a new run with a lower optimizer.learning_rate, or with training.precision: fp32."
        )
    limit = run.config.optimizer.max_grad_norm
    if limit is None:
        return
    if run.objective.scales_losses:
        limit *= relative_weight(figures.weights, figures.seconds)
    if figures.gradient_norm > limit:
        torch.nn.utils.clip_grads_with_norm_(_trained(run), limit, norm)


def _trained(run: Run) -> list[Tensor]:
    # The optimizer has a list. A model would look for its parameters in all of its modules, in every step.
    return [parameter for group in run.optimizer.param_groups for parameter in group["params"]]


def relative_weight(weights: Sequence[float], seconds: Sequence[float]) -> float:
    """The mean weight of a step's audio relative to uniform weights. Both arguments have shape (G,)."""
    total = sum(weight * share for weight, share in zip(weights, seconds, strict=True))
    return len(weights) * total / sum(seconds)
