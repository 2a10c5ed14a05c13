"""A speech recognizer that ctcdro has trained, for Hugging Face `transformers`. It does not need ctcdro."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from ..log_mel import LogMel
from .configuration_ctcdro import CtcdroConfig
from .inference import InferenceModel


class CtcdroForCTC(PreTrainedModel):
    """(B, T) audio at 16 kHz -> (B, F, V) log probabilities of labels.

    The output for an utterance does not depend on the rest of its batch. Frames after its end are blank.
    """

    config_class = CtcdroConfig
    main_input_name = "input_values"

    def __init__(self, config: CtcdroConfig) -> None:
        super().__init__(config)
        self.recognizer = InferenceModel(config.encoder, config.head, config.vocab_size)
        self.post_init()

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> CausalLMOutput:
        """Returns log probabilities as `logits`.

        Args:
            input_values: (B, T) float32 at 16 kHz.
            attention_mask: (B, T) mask of samples that are not padding; by default, there is no padding.
        """
        encoder, size = self.recognizer.encoder, input_values.shape[1]
        if size < encoder.min_samples:
            raise ValueError(f"`input_values` has {size} samples; this model needs at least {encoder.min_samples}.")
        if encoder.max_samples is not None and size > encoder.max_samples:
            raise ValueError(
                f"`input_values` has {size} samples; this model accepts up to {encoder.max_samples}. Split the audio, "
                f"in a pipeline with `chunk_length_s={encoder.max_samples // 16_000}`."
            )
        mask = torch.ones_like(input_values, dtype=torch.long) if attention_mask is None else attention_mask
        log_probs, _ = self.recognizer(input_values, mask.sum(1))
        return CausalLMOutput(logits=log_probs)

    def _init_weights(self, module: nn.Module) -> None:
        """Fills what `from_pretrained` does not read from the checkpoint: windows and mel filters."""
        if isinstance(module, LogMel):
            with torch.device("cpu"):
                filled = module.again()
            module.window.copy_(filled.window)
            module.filters.copy_(filled.filters)
