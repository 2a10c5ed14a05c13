"""The weights of a recognizer without LoRA, which is merged into the encoder."""

from __future__ import annotations

import torch
from torch import Tensor

from ..encoders.base import PretrainedEncoder
from ..recognizer import Recognizer
from .inference import InferenceModel, encoder_options


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
