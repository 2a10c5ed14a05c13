"""A recognizer as a CTC class of Hugging Face `transformers`: a pretrained encoder and a linear head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...runtime.extras import extra
from ...speech.vocabulary import BLANK, Vocabulary
from ..encoders.base import PretrainedEncoder
from ..encoders.lora import merged_weights
from ..encoders.pretrained import FAMILIES, quiet
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
    config = type(encoder.network.config)(
        **encoder.options["config"]
        | {"vocab_size": len(vocabulary), "pad_token_id": vocabulary.tokens.index(BLANK)}
        | {"bos_token_id": None, "eos_token_id": None, "ctc_zero_infinity": True}
    )
    stock = getattr(transformers, str(FAMILIES[encoder.family].ctc_class))(config)
    weights = {f"{stock.base_model_prefix}.{name}": tensor for name, tensor in merged_weights(encoder).items()}
    weights |= {f"lm_head.{name}": tensor for name, tensor in model.head.output.state_dict().items()}
    stock.load_state_dict(weights)
    with quiet(transformers):
        stock.save_pretrained(folder)
        vocabulary.save_tokenizer(folder)
        _feature_extractor(transformers, encoder).save_pretrained(folder)


def _feature_extractor(transformers: Any, encoder: PretrainedEncoder) -> Any:
    if isinstance(encoder, WaveformEncoder):
        return transformers.Wav2Vec2FeatureExtractor(do_normalize=encoder.normalize, return_attention_mask=True)
    return transformers.SeamlessM4TFeatureExtractor()
