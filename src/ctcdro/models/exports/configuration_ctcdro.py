"""Configuration of a speech recognizer that ctcdro has trained."""

from __future__ import annotations

from typing import Any, Literal

from transformers import PretrainedConfig


class CtcdroConfig(PretrainedConfig):
    """Settings of the model.

    Args:
        encoder: family and settings of the encoder.
        head: "linear", "transformer" or "convolution".
        vocab_size: number of labels. Label 0 is the blank.
        inputs_to_logits_ratio: samples per output frame.
    """

    model_type = "ctcdro"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        head: Literal["linear", "transformer", "convolution"] = "linear",
        vocab_size: int = 1,
        inputs_to_logits_ratio: int = 480,
        **options: Any,
    ) -> None:
        self.encoder = encoder or {"family": "mel-small", "config": {}}
        self.head = head
        self.vocab_size = vocab_size
        self.inputs_to_logits_ratio = inputs_to_logits_ratio
        super().__init__(**{"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None, **options})
