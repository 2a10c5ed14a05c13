"""Any recognizer for Hugging Face `transformers`: a folder with the weights and the code of the model.

The code does not import ctcdro. Users load it with `trust_remote_code=True`.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import torch

from ...runtime import extras
from ...runtime.extras import extra
from ...speech.vocabulary import Vocabulary
from ...storage.atomic import atomic_write
from .. import convolution_blocks, heads, log_mel, masks, spec_augment
from ..encoders import base, mel_small, pretrained, spectrogram, waveform
from ..recognizer import Recognizer
from . import inference
from .bundle import bundle
from .inference import encoder_options
from .weights import copy_weights


def write_custom_model(model: Recognizer, vocabulary: Vocabulary, folder: Path) -> None:
    """Writes weights, code, tokenizer and feature extractor. Features are computed inside the model."""
    with extra("train", "Exporting a recognizer"):
        import transformers

        from . import configuration_ctcdro, modeling_ctcdro
    config = configuration_ctcdro.CtcdroConfig(
        encoder=encoder_options(model.encoder),
        head=model.settings.head,
        vocab_size=len(vocabulary),
        auto_map={
            "AutoConfig": "configuration_ctcdro.CtcdroConfig",
            "AutoModelForCTC": "modeling_ctcdro.CtcdroForCTC",
        },
    )
    with torch.random.fork_rng(devices=[]):  # random weights are overwritten
        custom = modeling_ctcdro.CtcdroForCTC(config)
    copy_weights(model, custom.recognizer)
    config.inputs_to_logits_ratio = custom.recognizer.samples_per_frame
    with pretrained.quiet(transformers):
        custom.save_pretrained(folder)
        vocabulary.save_tokenizer(folder)
        transformers.Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True).save_pretrained(folder)
    with atomic_write(folder / "configuration_ctcdro.py") as file:
        file.write(inspect.getsource(configuration_ctcdro))
    with atomic_write(folder / "modeling_ctcdro.py") as file:
        file.write(modeling_code())


def modeling_code() -> str:
    """The code of `CtcdroForCTC` and everything that it needs."""
    from . import configuration_ctcdro, modeling_ctcdro

    modules = [
        *(extras, masks, spec_augment, log_mel, convolution_blocks, heads),
        *(base, mel_small, waveform, spectrogram, pretrained),
        *(inference, modeling_ctcdro),
    ]
    return bundle(modules, siblings=[configuration_ctcdro])
