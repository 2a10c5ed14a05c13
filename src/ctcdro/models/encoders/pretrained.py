"""Loads encoders from checkpoints of Hugging Face `transformers`.

The masking and layer drop of `transformers` are disabled: its masks use numpy's generator, whose state checkpoints do
not store, and the recognizer applies its own SpecAugment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...runtime.extras import extra
from ...speech.sentencepiece import SPACE_PIECE
from ...speech.vocabulary import BLANK, UNKNOWN, WORD_SPACE
from .base import PretrainedEncoder
from .mel_small import MEL_SMALL
from .spectrogram import ParakeetEncoder, W2vBertEncoder, WhisperEncoder
from .waveform import WaveformEncoder

logger = logging.getLogger(__name__)

ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")

# Far more than any encoder has. A configuration that claims more would exhaust the memory.
MAX_LAYERS = 1_000


class Family(NamedTuple):
    encoder: type[PretrainedEncoder]
    lora_targets: tuple[str, ...]
    """Linear layers that LoRA adapts by default."""
    ctc_class: str | None
    """Class of `transformers` with this encoder and a linear CTC head."""
    ctc_head: str = "lm_head"
    """Name of the head in that class."""


# WavLM passes its attention weights directly to a torch function. Adapters around these layers would have no effect.
FAMILIES: Mapping[str, Family] = {
    "wav2vec2": Family(WaveformEncoder, ATTENTION, "Wav2Vec2ForCTC"),
    "hubert": Family(WaveformEncoder, ATTENTION, "HubertForCTC"),
    "wavlm": Family(WaveformEncoder, ("intermediate_dense", "output_dense"), "WavLMForCTC"),
    "data2vec-audio": Family(WaveformEncoder, ATTENTION, "Data2VecAudioForCTC"),
    "wav2vec2-bert": Family(W2vBertEncoder, ("linear_q", "linear_k", "linear_v", "linear_out"), "Wav2Vec2BertForCTC"),
    "whisper": Family(WhisperEncoder, ATTENTION, None),
    "parakeet_encoder": Family(
        ParakeetEncoder, ("q_proj", "k_proj", "v_proj", "o_proj"), "ParakeetForCTC", ctc_head="ctc_head"
    ),
}


def from_pretrained(name: str, kind: str = "encoder") -> PretrainedEncoder:
    """Loads the encoder of a checkpoint: a folder, or a name on the Hugging Face Hub. `kind` is for errors."""
    _reject_misspelled(name)
    transformers = _transformers()
    with _naming(name, kind):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    config = getattr(config, "encoder_config", config)  # of Parakeet with a head of any kind
    if config.model_type not in FAMILIES:
        raise ValueError(
            f"`encoder` must be a model of type {', '.join(FAMILIES)}; {name} has type {config.model_type}."
        )
    if not 0 < config.num_hidden_layers <= MAX_LAYERS:
        raise ValueError(
            f"`encoder` must have 1 to {MAX_LAYERS:,} layers; the configuration of {name} has "
            f"{config.num_hidden_layers:,}."
        )
    _switch_off_masking(config)
    is_encoder_only = config.architectures == ["WhisperEncoder"]
    model_class = _whisper_class() if is_encoder_only else transformers.AutoModel
    with _naming(name, kind), quiet(transformers):  # it warns about unused parts of the checkpoint
        network, info = model_class.from_pretrained(name, config=config, dtype=torch.float32, output_loading_info=True)
    missing = [key for key in info["missing_keys"] if not key.startswith("decoder.")]
    if missing:
        raise ValueError(f"`encoder`: {name} has no weights for {', '.join(sorted(missing)[:5])}.")
    if config.model_type == "whisper" and not is_encoder_only:
        network = network.encoder
    return _wrap(network, _expects_normalized_audio(name, config))


def _reject_misspelled(name: str) -> None:
    # Without a network, the Hub would be asked again and again before an error.
    if "/" not in name and not Path(name).exists() and get_close_matches(name, [MEL_SMALL], cutoff=0.8):
        raise ValueError(f"There is no encoder {name!r}. Did you mean {MEL_SMALL}?")


class CtcModel(NamedTuple):
    encoder: PretrainedEncoder
    weight: torch.Tensor
    """(V, D) weights of the output layer."""
    bias: torch.Tensor
    labels: list[str]
    """Labels in the order of the output layer: `<pad>` for the blank, `<unk>`, and `|` for the space."""


def load_ctc_model(name: str) -> CtcModel:
    """Loads a CTC model, such as a `Wav2Vec2ForCTC`: a folder, or a name on the Hugging Face Hub."""
    transformers = _transformers()
    encoder = from_pretrained(name, "model")
    ctc_class = FAMILIES[encoder.family].ctc_class
    with _naming(name, "model"), quiet(transformers):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        if ctc_class is None or ctc_class not in (config.architectures or []):
            found = ", ".join(config.architectures or []) or f"a model of type {config.model_type}"
            supported = ", ".join(family.ctc_class for family in FAMILIES.values() if family.ctc_class)
            raise ValueError(f"it is {found}, without a CTC head. Supported: {supported}")
        model = getattr(transformers, ctc_class).from_pretrained(name, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    output = model.get_submodule(FAMILIES[encoder.family].ctc_head)
    weight = output.weight.data.flatten(1)  # that of Parakeet is a convolution over one frame
    space = getattr(tokenizer, "word_delimiter_token", SPACE_PIECE)
    ours = {tokenizer.pad_token: BLANK, tokenizer.unk_token: UNKNOWN, space: WORD_SPACE}
    labels = [f"<{row}>" for row in range(len(weight))]  # rows without a label
    for label, row in tokenizer.get_vocab().items():
        if row < len(labels):
            labels[row] = ours.get(label, label)
    return CtcModel(encoder, weight, output.bias.data, labels)


def from_options(options: Mapping[str, Any]) -> PretrainedEncoder:
    """Builds an encoder from the `options` of another, with random weights."""
    transformers = _transformers()
    config = transformers.AutoConfig.for_model(options["family"], **options["config"])
    network = _whisper_class()(config) if options["family"] == "whisper" else transformers.AutoModel.from_config(config)
    return _wrap(network, options.get("normalize", False))


def _wrap(network: Any, normalize: bool) -> PretrainedEncoder:
    encoder: Any = FAMILIES[network.config.model_type].encoder
    return encoder(network, normalize) if encoder is WaveformEncoder else encoder(network)


@contextmanager
def _naming(name: str, kind: str) -> Iterator[None]:
    """Converts the errors of `transformers`, which have many types, into one that names the checkpoint."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"Cannot load {kind} {name!r}: transformers found it neither as a folder with a checkpoint nor, if this "
            "machine is online, as a model on the Hugging Face Hub "
            f"({type(error).__name__}: {' '.join(str(error).split()):.500})."
        ) from error


def _switch_off_masking(config: Any) -> None:
    # Zero probabilities rather than `apply_spec_augment=False`, which keeps a parameter for masked frames that never
    # gets a gradient, and would block distributed training.
    for key in ("mask_time_prob", "mask_feature_prob", "layerdrop", "encoder_layerdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    if getattr(config, "add_adapter", False):
        logger.info("The adapter convolutions after the last layer (add_adapter) are not used.")
        config.add_adapter = False


def _expects_normalized_audio(name: str, config: Any) -> bool:
    """Reads the checkpoint's preprocessor; without one, assumes that models with the large architecture do."""
    from transformers import FeatureExtractionMixin
    from transformers.utils.hub import cached_file

    files = ("preprocessor_config.json", "processor_config.json")
    if any(cached_file(name, file, _raise_exceptions_for_missing_entries=False) for file in files):
        preprocessor, _ = FeatureExtractionMixin.get_feature_extractor_dict(name)
        if "do_normalize" in preprocessor:
            return bool(preprocessor["do_normalize"])
    return getattr(config, "feat_extract_norm", "layer") == "layer"


def _transformers() -> Any:
    with extra("train", "A pretrained encoder"):
        import transformers
    return transformers


def _whisper_class() -> Any:
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Hides progress bars and messages of `transformers`."""
    logs = transformers.logging
    verbosity, has_bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(verbosity)
        if has_bars:
            logs.enable_progress_bar()
