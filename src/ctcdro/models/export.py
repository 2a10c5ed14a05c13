"""Exports a trained recognizer as a CTC model of Hugging Face `transformers`.

export(model, vocabulary, "exported")
transformers.pipeline("automatic-speech-recognition", "exported")("a.wav")  # {'text': '[ces]dobrý den'}
"""

from __future__ import annotations

from typing import Any

from ..runtime.extras import extra
from ..speech.vocabulary import BLANK, Vocabulary
from ..storage.atomic import atomic_folder
from ..storage.paths import PathLike, is_empty
from .encoders.base import PretrainedEncoder
from .encoders.lora import merged_weights
from .encoders.pretrained import FAMILIES, quiet
from .encoders.waveform import WaveformEncoder
from .heads import LinearHead
from .recognizer import Recognizer, check_vocabulary


def export(model: Recognizer, vocabulary: Vocabulary, folder: PathLike) -> None:
    """Writes weights, tokenizer and feature extractor for `transformers`. LoRA is merged into the encoder.

    Raises:
        ValueError: if the folder is not empty, or `transformers` has no class for the model. It has none for the
            paper's head, Whisper's encoder and `mel-small`; use `Recognizer.save` and `load` for those.
    """
    encoder = model.encoder
    check_vocabulary(model, vocabulary)
    if not is_empty(folder):
        raise ValueError(f"{folder} is not empty. Choose another --out (`folder` in Python).")
    ctc_class = FAMILIES[encoder.family].ctc_class if isinstance(encoder, PretrainedEncoder) else None
    if not isinstance(encoder, PretrainedEncoder) or ctc_class is None or not isinstance(model.head, LinearHead):
        supported = ", ".join(name for name, family in FAMILIES.items() if family.ctc_class)
        raise ValueError(
            f"Cannot export this model: `transformers` has no CTC model with encoder {model.settings.encoder} and head "
            f"{model.settings.head}, only with encoders {supported} and head linear. Use the run folder instead, with "
            "`ctcdro transcribe` or `ctcdro.models.recognizer.load`."
        )
    with extra("train", "Exporting a recognizer"):
        import transformers
    config = type(encoder.network.config)(
        **encoder.options["config"]
        | {"vocab_size": len(vocabulary), "pad_token_id": vocabulary.tokens.index(BLANK)}
        | {"bos_token_id": None, "eos_token_id": None, "ctc_zero_infinity": True}
    )
    stock = getattr(transformers, ctc_class)(config)
    weights = {f"{stock.base_model_prefix}.{name}": tensor for name, tensor in merged_weights(encoder).items()}
    weights |= {f"lm_head.{name}": tensor for name, tensor in model.head.output.state_dict().items()}
    stock.load_state_dict(weights)
    with atomic_folder(folder) as unfinished, quiet(transformers):
        stock.save_pretrained(unfinished)
        vocabulary.save_tokenizer(unfinished)
        _feature_extractor(transformers, encoder).save_pretrained(unfinished)


def _feature_extractor(transformers: Any, encoder: PretrainedEncoder) -> Any:
    if isinstance(encoder, WaveformEncoder):
        return transformers.Wav2Vec2FeatureExtractor(do_normalize=encoder.normalize, return_attention_mask=True)
    return transformers.SeamlessM4TFeatureExtractor()
