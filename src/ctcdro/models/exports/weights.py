"""The weights of a recognizer without LoRA, which is merged into the encoder."""

from __future__ import annotations

import torch

from ..encoders.base import PretrainedEncoder
from ..encoders.lora import merged_weights
from ..recognizer import Recognizer
from .inference import InferenceModel, encoder_options


def copy_weights(model: Recognizer, copy: InferenceModel) -> None:
    """Fills a model that was built with the options of `model`."""
    if isinstance(model.encoder, PretrainedEncoder):
        assert isinstance(copy.encoder, PretrainedEncoder)
        copy.encoder.network.load_state_dict(merged_weights(model.encoder))
    else:
        copy.encoder.load_state_dict(model.encoder.state_dict())
    copy.head.load_state_dict(model.head.state_dict())


def inference_copy(model: Recognizer) -> InferenceModel:
    """A copy for inference, in evaluation mode, on the CPU."""
    settings = model.settings
    with torch.random.fork_rng(devices=[]):  # random weights are overwritten
        copy = InferenceModel(encoder_options(model.encoder), settings.head, settings.vocabulary_size)
    copy_weights(model, copy)
    return copy.eval()
