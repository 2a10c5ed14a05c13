"""Gradient clipping, with a limit that is scaled so that it does not undo the group weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .run import Run


def clip_gradient(run: Run, seconds: Sequence[float]) -> float:
    """Clips the gradient, and returns its norm before clipping. `seconds` (G,) is the audio of each group in the step.

    The limit is multiplied by the step's mean weight relative to uniform weights, so that the weight of a group still
    has an effect if every step is clipped. If a sampler applies the weights, the limit stays the same.
    """
    limit = run.config.optimizer.max_grad_norm
    parameters = list(run.wrapped_model.parameters())
    total = torch.nn.utils.get_total_norm(parameter.grad for parameter in parameters if parameter.grad is not None)
    if hasattr(total, "full_tensor"):  # of a sharded model, over all processes
        total = total.full_tensor()
    norm = float(total)
    if not math.isfinite(norm):
        raise FloatingPointError(
            f"Step {run.progress.step + 1}: the gradient norm is {norm}. The last checkpoint is intact. Start a new "
            "run with a lower optimizer.learning_rate, or with training.precision: fp32."
        )
    if limit is not None:
        if run.objective.scales_losses:
            limit *= relative_weight(run.objective.weights.tolist(), seconds)
        if norm > limit:
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, total)
    return norm


def relative_weight(weights: Sequence[float], seconds: Sequence[float]) -> float:
    """The mean weight of a step's audio relative to uniform weights. Both arguments have shape (G,)."""
    total = sum(weight * share for weight, share in zip(weights, seconds, strict=True))
    return len(weights) * total / sum(seconds)
