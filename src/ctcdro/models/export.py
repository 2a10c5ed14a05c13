"""A trained recognizer as a stock CTC model of Hugging Face `transformers`, which loads it by itself.

export(model, vocabulary, "exported")
transformers.pipeline("automatic-speech-recognition", "exported")("a.wav")  # {'text': '[ces]dobrý den'}
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..runtime.extras import extra
from ..speech.vocabulary import BLANK, Vocabulary
from ..storage.atomic import atomic_folder
from ..storage.paths import PathLike, is_empty
from .encoders import PretrainedEncoder, WaveEncoder, quiet
from .heads import LinearHead
from .recognizer import Recognizer, check_vocabulary

CTC_CLASSES = {
    "wav2vec2": "Wav2Vec2ForCTC",
    "hubert": "HubertForCTC",
    "wavlm": "WavLMForCTC",
    "data2vec-audio": "Data2VecAudioForCTC",
    "wav2vec2-bert": "Wav2Vec2BertForCTC",
}


def export(model: Recognizer, vocabulary: Vocabulary, folder: PathLike) -> None:
    """Writes weights, tokenizer and feature extractor for `transformers`. LoRA is merged into the encoder.

    Raises:
        ValueError: if `transformers` has no class for such a model: with the paper's head, for Whisper's encoder, and
            for `mel-small` (`Recognizer.save` and `load` are for those); or if the folder is not empty.
    """
    encoder = model.encoder
    check_vocabulary(model, vocabulary)
    if not is_empty(folder):
        raise ValueError(f"`folder`: {folder} is not empty. Give another name.")
    if not isinstance(encoder, PretrainedEncoder) or encoder.family not in CTC_CLASSES:
        raise ValueError(
            f"`model`: `transformers` has no CTC model with the encoder {model.settings.encoder}; it has for "
            f"{', '.join(CTC_CLASSES)}. Use `Recognizer.save` and `ctcdro.models.recognizer.load`."
        )
    if not isinstance(model.head, LinearHead):
        raise ValueError(
            '`model`: `transformers` has no CTC model with this head, only with `head="linear"`. Use `Recognizer.save` '
            "and `ctcdro.models.recognizer.load`."
        )
    with extra("train", "Exporting a recognizer"):
        import transformers
    config = type(encoder.network.config)(
        **encoder.options["config"]
        | {"vocab_size": len(vocabulary), "pad_token_id": vocabulary.tokens.index(BLANK)}
        | {"bos_token_id": None, "eos_token_id": None, "ctc_zero_infinity": True}
    )
    stock = getattr(transformers, CTC_CLASSES[encoder.family])(config)
    weights = {f"{stock.base_model_prefix}.{name}": tensor for name, tensor in merged_weights(encoder).items()}
    weights |= {f"lm_head.{name}": tensor for name, tensor in model.head.output.state_dict().items()}
    stock.load_state_dict(weights)
    with atomic_folder(folder) as unfinished, quiet(transformers):
        stock.save_pretrained(unfinished)
        vocabulary.save_tokenizer(unfinished)
        _feature_extractor(transformers, encoder).save_pretrained(unfinished)


def merged_weights(encoder: PretrainedEncoder) -> dict[str, Tensor]:
    """The weights of the encoder as it was before LoRA was added, with what LoRA learnt added to them."""
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


def _feature_extractor(transformers: Any, encoder: PretrainedEncoder) -> Any:
    if isinstance(encoder, WaveEncoder):
        return transformers.Wav2Vec2FeatureExtractor(do_normalize=encoder.normalize, return_attention_mask=True)
    return transformers.SeamlessM4TFeatureExtractor()
