"""A recognizer as a CTC class of Hugging Face `transformers`: a pretrained encoder and a linear head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...runtime.extras import extra
from ...speech.vocabulary import Vocabulary
from ...storage.json_files import write_json
from ..encoders.base import PretrainedEncoder
from ..encoders.lora import merged_weights
from ..encoders.pretrained import FAMILIES, quiet
from ..encoders.spectrogram import ParakeetEncoder
from ..encoders.waveform import WaveformEncoder
from ..heads import LinearHead
from ..recognizer import Recognizer


def has_stock_class(model: Recognizer) -> bool:
    """Whether `transformers` has a class for the model. It has none for Whisper's encoder with CTC, for example."""
    encoder = model.encoder
    has_class = isinstance(encoder, PretrainedEncoder) and FAMILIES[encoder.family].ctc_class is not None
    return has_class and isinstance(model.head, LinearHead)


def write_stock_model(model: Recognizer, vocabulary: Vocabulary, folder: Path) -> None:
    """Writes weights, tokenizer and feature extractor."""
    encoder = model.encoder
    assert isinstance(encoder, PretrainedEncoder)
    assert isinstance(model.head, LinearHead)
    with extra("train", "Exporting a recognizer"):
        import transformers
    config = _stock_config(transformers, encoder, len(vocabulary))
    stock = getattr(transformers, str(FAMILIES[encoder.family].ctc_class))(config)
    [prefix] = [name for name, part in stock.named_children() if type(part) is type(encoder.network)]
    output = FAMILIES[encoder.family].ctc_head
    weights = {f"{prefix}.{name}": tensor for name, tensor in merged_weights(encoder).items()}
    for name, parameter in stock.get_submodule(output).named_parameters():
        weights[f"{output}.{name}"] = model.head.output.get_parameter(name).view_as(parameter)
    stock.load_state_dict(weights)
    with quiet(transformers):
        stock.save_pretrained(folder)
        vocabulary.save_tokenizer(folder)
        _save_feature_extractor(transformers, encoder, folder)


def _stock_config(transformers: Any, encoder: PretrainedEncoder, num_labels: int) -> Any:
    options = {
        **{"vocab_size": num_labels, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None},  # 0 is the blank
        "ctc_zero_infinity": True,
    }
    if isinstance(encoder, ParakeetEncoder):
        return transformers.ParakeetCTCConfig(encoder_config=encoder.options["config"], **options)
    return type(encoder.network.config)(**encoder.options["config"] | options)


def _save_feature_extractor(transformers: Any, encoder: PretrainedEncoder, folder: Path) -> None:
    if isinstance(encoder, ParakeetEncoder):  # its class needs librosa, which only its users have
        write_json(folder / "preprocessor_config.json", encoder.features.extractor_settings)
    elif isinstance(encoder, WaveformEncoder):
        options = {"do_normalize": encoder.normalize, "return_attention_mask": True}
        transformers.Wav2Vec2FeatureExtractor(**options).save_pretrained(folder)
    else:
        transformers.SeamlessM4TFeatureExtractor().save_pretrained(folder)
