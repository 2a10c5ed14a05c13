"""LoRA: low-rank matrices that are trained instead of the encoder's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...runtime.extras import extra
from .base import PretrainedEncoder
from .pretrained import FAMILIES


@dataclass(frozen=True)
class Lora:
    """Settings of LoRA: rank and scale of the matrices, and dropout on their input."""

    rank: int = 8
    alpha: float = 16.0
    """The output of the matrices is multiplied by alpha / rank."""
    dropout: float = 0.0


def add_lora(encoder: PretrainedEncoder, lora: Lora) -> None:
    """Adds the matrices in place, and freezes all other parameters of the encoder."""
    with extra("train", "LoRA"):
        from peft import LoraConfig, inject_adapter_in_model
    targets = list(FAMILIES[encoder.family].lora_targets)
    alpha: Any = lora.alpha  # peft's annotation is int, but it accepts any number
    config = LoraConfig(r=lora.rank, lora_alpha=alpha, lora_dropout=lora.dropout, target_modules=targets)
    encoder.network = inject_adapter_in_model(config, encoder.network)
    encoder.freeze_feature_extractor()


def merged_weights(encoder: PretrainedEncoder) -> dict[str, Tensor]:
    """The weights of the encoder with LoRA merged, under their names without LoRA."""
    weights = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in encoder.network.state_dict().items()
        if ".lora_" not in name
    }
    for name, module in encoder.network.named_modules():
        if hasattr(module, "get_delta_weight"):
            key = f"{name}.weight"
            weights[key] = weights[key] + module.get_delta_weight("default").detach()
    return weights
