"""LoRA: low-rank matrices that are trained instead of the encoder's own weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...runtime.extras import extra
from .base import PretrainedEncoder
from .pretrained import ATTENTION, FAMILIES


@dataclass(frozen=True)
class Lora:
    """Settings of LoRA.

    Example:
        >>> Lora(rank=16)
        Lora(rank=16, alpha=16.0, dropout=0.0, target_modules=None)
    """

    rank: int = 8
    """Rank of the matrices."""
    alpha: float = 16.0
    """The output of the matrices is multiplied by alpha / rank."""
    dropout: float = 0.0
    """Dropout of the input of the matrices, in training."""
    target_modules: tuple[str, ...] | None = None
    """Names of the linear layers to adapt; by default those of the family in `FAMILIES`."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"`rank` of LoRA must be 1 or more; got {self.rank}.")
        if self.target_modules is not None:
            object.__setattr__(self, "target_modules", tuple(self.target_modules))  # JSON has lists


def add_lora(encoder: PretrainedEncoder, lora: Lora) -> None:
    """Adds the matrices in place, and freezes all other parameters of the encoder."""
    with extra("train", "LoRA"):
        from peft import LoraConfig, inject_adapter_in_model
    defaults = FAMILIES[encoder.family].lora_targets
    targets = lora.target_modules or defaults
    if encoder.family == "wavlm" and (without_effect := sorted(set(targets) & set(ATTENTION))):
        raise ValueError(
            f"`target_modules` of LoRA: {', '.join(without_effect)} of WavLM cannot be adapted, since its attention "
            f"reads their weights directly. Use {', '.join(defaults)}."
        )
    alpha: Any = lora.alpha  # peft annotates an integer, but accepts any number
    config = LoraConfig(r=lora.rank, lora_alpha=alpha, lora_dropout=lora.dropout, target_modules=list(targets))
    encoder.network = inject_adapter_in_model(config, encoder.network)
    encoder.freeze_feature_extractor()
