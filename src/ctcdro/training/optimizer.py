"""The optimizer of a run and its learning rates: one for the head, one for the encoder.

With LoRA, the adapters are part of the encoder. While the encoder is frozen at the start of training, it has no
gradients, so that neither weight decay nor Adam's averages change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.optim.lr_scheduler import LambdaLR

if TYPE_CHECKING:
    from ..models.recognizer import Recognizer
    from ..runs.config import Config, OptimizerConfig


def num_steps(config: Config) -> int:
    return config.training.num_batches // config.optimizer.batches_per_step


def num_frozen_steps(config: Config) -> int:
    """Steps at the start of training in which only the head is trained; all steps if the encoder is always frozen."""
    settings = config.optimizer
    num_batches = config.training.num_batches if config.model.freeze_encoder else settings.freeze_encoder_batches
    return math.ceil(num_batches / settings.batches_per_step)


def build_optimizer(config: Config, recognizer: Recognizer) -> torch.optim.Optimizer:
    """Adam with a parameter group `encoder`, unless the encoder is frozen, and a group `head`."""
    settings = config.optimizer
    optimizer = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    encoder, head = (
        [parameter for parameter in part.parameters() if parameter.requires_grad]
        for part in (recognizer.encoder, recognizer.head)
    )
    encoder_learning_rate = settings.encoder_learning_rate or settings.learning_rate
    groups = [
        {"name": "encoder", "params": encoder, "lr": encoder_learning_rate},
        {"name": "head", "params": head, "lr": settings.learning_rate},
    ]
    return optimizer(
        [group for group in groups if group["params"]],
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def build_schedule(config: Config, optimizer: torch.optim.Optimizer) -> LambdaLR:
    def head_factor(step: int) -> float:
        return learning_rate_factor(config.optimizer, step, num_steps(config))

    def encoder_factor(step: int) -> float:
        return 0.0 if step < num_frozen_steps(config) else head_factor(step)

    factors = {"encoder": encoder_factor, "head": head_factor}
    return LambdaLR(optimizer, [factors[group["name"]] for group in optimizer.param_groups])


def learning_rate_factor(settings: OptimizerConfig, step: int, total: int) -> float:
    """The learning rate at a step, relative to the configured learning rate."""
    num_warmup = round(settings.warmup_fraction * total)
    if step < num_warmup:
        return (step + 1) / num_warmup
    done = (step - num_warmup) / max(1, total - num_warmup)
    factors = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}
    return factors[settings.lr_schedule]


def learning_rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """The current learning rates, by their names in the configuration."""
    names = {"encoder": "encoder_learning_rate", "head": "learning_rate"}
    return {names[group["name"]]: group["lr"] for group in optimizer.param_groups}
