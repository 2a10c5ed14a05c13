"""Pretrained encoders of Hugging Face `transformers`, from raw audio to hidden layers, and LoRA for them.

All take (B, T) audio of 16 kHz, zero after the end of each utterance, and (B,) numbers of samples. What comes out for
an utterance does not depend on what it is padded to. Where `transformers` lets padding in, it is kept out here: see
`_PaddedGroupNorm` and `_zero_padding`.

An encoder's own masking and its layer drop are switched off: masks are drawn from numpy's generator, which no
checkpoint keeps, and the head has a SpecAugment of its own.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..runtime.extras import extra
from .log_mel import KaldiFbank, WhisperLogMel, normalized_audio
from .masks import real_frames

logger = logging.getLogger(__name__)

_ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")

# The linear layers that LoRA adapts, by family. WavLM's attention hands the weights of its projections to a function of
# torch, past whatever is around them; adapting those would do nothing.
LORA_TARGETS: Mapping[str, tuple[str, ...]] = {
    "wav2vec2": _ATTENTION,
    "hubert": _ATTENTION,
    "wavlm": ("intermediate_dense", "output_dense"),
    "data2vec-audio": _ATTENTION,
    "wav2vec2-bert": ("linear_q", "linear_k", "linear_v", "linear_out"),
    "whisper": _ATTENTION,
}
FAMILIES = tuple(LORA_TARGETS)

# Far more than any encoder has; a folder that asks for more would fill the memory with modules.
MOST_LAYERS = 1_000


@dataclass(frozen=True)
class Lora:
    """How to adapt an encoder by matrices of low rank, while its own parameters stay as they are.

    Example:
        >>> Lora(rank=16)
        Lora(rank=16, alpha=16.0, dropout=0.0, target_modules=None)
    """

    rank: int = 8
    """Of the matrices."""
    alpha: float = 16.0
    """What they add is multiplied by alpha / rank."""
    dropout: float = 0.0
    """Before them, in training."""
    target_modules: tuple[str, ...] | None = None
    """Names of linear layers; by default those of `LORA_TARGETS`."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"`rank` of LoRA must be 1 or more; got {self.rank}.")
        if self.target_modules is not None:
            object.__setattr__(self, "target_modules", tuple(self.target_modules))  # as JSON has lists


class PretrainedEncoder(nn.Module):
    """What all families have in common.

    Attributes:
        network: the module of `transformers`.
        family: as `network.config.model_type`.
        width: of a frame.
        num_layers: hidden layers that it gives, the input of the first among them.
        min_samples: fewer do not make a frame.
        max_samples: the most that it takes; None if there is no limit.
    """

    def __init__(self, network: Any, min_samples: int, max_samples: int | None = None) -> None:
        super().__init__()
        config = network.config
        self.network = network
        self.family: str = config.model_type
        self.width: int = config.hidden_size
        self.num_layers: int = config.num_hidden_layers + 1
        self.min_samples = min_samples
        self.max_samples = max_samples

    @property
    def options(self) -> dict[str, Any]:
        """What `from_options` makes the same encoder from, without its weights."""
        config = self.network.config.to_dict()
        for key in ("_name_or_path", "architectures", "dtype", "model_type", "transformers_version"):
            config.pop(key, None)
        return {"family": self.family, "config": config}

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Frames that come out for samples that go in."""
        raise NotImplementedError

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        """The hidden layers, each (B, F, D), or the last alone."""
        raise NotImplementedError

    def checkpoint_gradients(self) -> None:
        """Keeps only the input of each layer for the way back, and computes the rest anew."""
        # The other kind, reentrant, would cut the hidden layers that are looked at from their gradients.
        options: dict[str, Any] = {"use_reentrant": False}
        if self.family == "wavlm":
            options["context_fn"] = lambda: (nullcontext(), _WavLMQuiet())
        self.network.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)

    def freeze_feature_extractor(self) -> None:
        """Where the encoder begins with convolutions, tells them that no gradient is asked for."""
        if hasattr(self.network, "freeze_feature_encoder"):
            self.network.freeze_feature_encoder()


def _layers(output: Any, all_layers: bool) -> tuple[Tensor, ...]:
    # The last hidden state is that of the last layer after its norm. In `transformers` 5, the hidden states have it
    # without; then the norm would be left out, and have no gradient.
    return (*output.hidden_states[:-1], output.last_hidden_state) if all_layers else (output.last_hidden_state,)


class WaveEncoder(PretrainedEncoder):
    """wav2vec 2.0 (XLS-R, MMS), HuBERT, WavLM, data2vec: convolutions on the audio, then Transformer layers.

    Args:
        network: as `Wav2Vec2Model`.
        normalize: whether it wants audio of zero mean and unit variance.
    """

    def __init__(self, network: Any, normalize: bool) -> None:
        config = network.config
        convolutions = list(zip(config.conv_kernel, config.conv_stride, strict=True))
        min_samples = 1
        for kernel, stride in reversed(convolutions):
            min_samples = (min_samples - 1) * stride + kernel
        super().__init__(network, min_samples)
        self.convolutions = convolutions
        self.normalize = normalize
        self.has_group_norm = getattr(config, "feat_extract_norm", "layer") == "group"
        if self.has_group_norm:
            first = network.feature_extractor.conv_layers[0]
            first.layer_norm = _PaddedGroupNorm(first.layer_norm)
        if getattr(config, "conv_pos_batch_norm", False):
            warnings.warn(
                f"This {self.family} encoder has a batch normalization (conv_pos_batch_norm): what it gives for an "
                "utterance depends a little on the others in its batch, and on padding.",
                stacklevel=2,
            )
        self._padding: Tensor | None = None
        if self.family == "data2vec-audio":
            for layer in network.encoder.pos_conv_embed.layers:
                layer.register_forward_pre_hook(self._zero_padding)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "normalize": self.normalize}

    def num_frames(self, num_samples: Tensor) -> Tensor:
        for kernel, stride in self.convolutions:
            num_samples = (num_samples - kernel) // stride + 1
        return num_samples

    def checkpoint_gradients(self) -> None:
        super().checkpoint_gradients()
        if self.has_group_norm:  # computed anew, it would find the lengths of a later batch
            self.network.feature_extractor.conv_layers[0].gradient_checkpointing = False

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        if self.normalize:
            audio = normalized_audio(audio, num_samples)
        if self.has_group_norm:
            kernel, stride = self.convolutions[0]
            norm = self.network.feature_extractor.conv_layers[0].layer_norm
            norm.lengths = ((num_samples - kernel) // stride + 1).tolist()
        num_frames = self.num_frames(num_samples)
        self._padding = ~real_frames(num_frames, int(num_frames.max()), audio.device)[:, None]
        mask = real_frames(num_samples, audio.shape[1], audio.device).long()
        with _WavLMQuiet() if self.family == "wavlm" else nullcontext():
            output = self.network(audio, attention_mask=mask, output_hidden_states=all_layers)
        self._padding = None
        return _layers(output, all_layers)

    def _zero_padding(self, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        """data2vec has several convolutions for positions, one after the other. What one writes into the padding would
        be read by the next; an utterance alone has zeros there."""
        assert self._padding is not None
        return inputs[0].masked_fill(self._padding, 0.0)


class _WavLMQuiet(warnings.catch_warnings):
    """Keeps torch from warning of the way in which WavLM calls its attention."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")


class _PaddedGroupNorm(nn.GroupNorm):
    """The group norm over time of wav2vec 2.0 base and the like, over each utterance without its padding."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__(norm.num_groups, norm.num_channels, norm.eps)
        self.weight, self.bias = norm.weight, norm.bias
        self.lengths: list[int] = []

    def forward(self, hidden: Tensor) -> Tensor:
        size = hidden.shape[2]
        if min(self.lengths) == size:
            return super().forward(hidden)
        rows = [
            F.pad(super(_PaddedGroupNorm, self).forward(row[None, :, :length]), (0, size - length))
            for row, length in zip(hidden, self.lengths, strict=True)
        ]
        return torch.cat(rows)


class FbankEncoder(PretrainedEncoder):
    """wav2vec 2.0 BERT: Conformer layers on Kaldi's filter bank."""

    def __init__(self, network: Any) -> None:
        stacked = 2
        features = KaldiFbank(network.config.feature_projection_input_dim // stacked, stacked)
        super().__init__(network, min_samples=400 + 160)
        self.features = features

    def num_frames(self, num_samples: Tensor) -> Tensor:
        return self.features.num_frames(num_samples)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        features = self.features(audio, num_samples)
        mask = real_frames(self.num_frames(num_samples), features.shape[1], audio.device).long()
        return _layers(self.network(features, attention_mask=mask, output_hidden_states=all_layers), all_layers)


class WhisperEncoder(PretrainedEncoder):
    """Whisper's encoder, on as much audio as there is instead of always 30 s."""

    def __init__(self, network: Any) -> None:
        # `transformers` has a forward for 30 s only; this one needs the parts.
        super().__init__(network, min_samples=400, max_samples=network.config.max_source_positions * 320)
        self.features = WhisperLogMel(network.config.num_mel_bins)
        network.embed_positions.requires_grad_(False)  # sines, which `from_pretrained` forgets to be fixed

    def num_frames(self, num_samples: Tensor) -> Tensor:
        return -(-self.features.num_frames(num_samples) // 2)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        from transformers.masking_utils import create_bidirectional_mask

        network = self.network
        features = self.features(audio, num_samples)
        # A convolution writes into the padding, and the next one would read it.
        there = real_frames(self.features.num_frames(num_samples), features.shape[1], audio.device)
        hidden = F.gelu(network.conv1(features.transpose(1, 2))).masked_fill(~there[:, None], 0.0)
        hidden = F.gelu(network.conv2(hidden)).transpose(1, 2)
        hidden = hidden + network.embed_positions.weight[: hidden.shape[1]]
        hidden = F.dropout(hidden, network.dropout, self.training)
        mask = create_bidirectional_mask(
            config=network.config,
            inputs_embeds=hidden,
            attention_mask=real_frames(self.num_frames(num_samples), hidden.shape[1], audio.device),
        )
        layers = [hidden]
        for layer in network.layers:
            layers.append(layer(layers[-1], mask))
        last = network.layer_norm(layers[-1])
        return (*layers[:-1], last) if all_layers else (last,)


def from_pretrained(name: str) -> PretrainedEncoder:
    """The encoder of a checkpoint: a folder, or a name on the Hugging Face hub.

    Raises:
        ValueError: if there is none, or it is of a family that is not known here, or lacks weights.
    """
    transformers = _transformers()
    with _named(name):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    if config.model_type not in FAMILIES:
        raise ValueError(
            f"`encoder` must be of one of the families {', '.join(FAMILIES)}; {name} is {config.model_type}."
        )
    if not 0 < config.num_hidden_layers <= MOST_LAYERS:
        raise ValueError(f"`encoder`: {name} claims {config.num_hidden_layers:,} layers, not 1 to {MOST_LAYERS:,}.")
    _switch_off_masking(config)
    alone = config.architectures == ["WhisperEncoder"]
    from_checkpoint = _whisper_class() if alone else transformers.AutoModel
    with _named(name), quiet(transformers):  # about the parts of the checkpoint that are not of the encoder
        network, info = from_checkpoint.from_pretrained(
            name, config=config, dtype=torch.float32, output_loading_info=True
        )
    missing = [key for key in info["missing_keys"] if not key.startswith("decoder.")]
    if missing:
        raise ValueError(f"`encoder`: {name} has no weights for {', '.join(sorted(missing)[:5])}.")
    if config.model_type == "whisper" and not alone:
        network = network.encoder
    return _wrapped(network, _wants_normalized_audio(name, config))


@contextmanager
def _named(name: str) -> Iterator[None]:
    """What `transformers` says, of a hundred kinds, comes with the name of the checkpoint that it could not load."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"`encoder`: {name} is no folder here with a checkpoint that transformers can load, and no such name on "
            f"the hub ({type(error).__name__}: {' '.join(str(error).split()):.500})."
        ) from error


def from_options(options: Mapping[str, Any]) -> PretrainedEncoder:
    """The encoder that gave these `options`, with random weights."""
    transformers = _transformers()
    config = transformers.AutoConfig.for_model(options["family"], **options["config"])
    network = _whisper_class()(config) if options["family"] == "whisper" else transformers.AutoModel.from_config(config)
    return _wrapped(network, options.get("normalize", False))


def add_lora(encoder: PretrainedEncoder, lora: Lora) -> None:
    """Adapts an encoder in place; only the new matrices can be trained from then on."""
    with extra("train", "LoRA"):
        from peft import LoraConfig, inject_adapter_in_model
    targets = lora.target_modules or LORA_TARGETS[encoder.family]
    if encoder.family == "wavlm" and (without_effect := sorted(set(targets) & set(_ATTENTION))):
        raise ValueError(
            f"`target_modules` of LoRA: {', '.join(without_effect)} of WavLM cannot be adapted, since its attention "
            f"reads their weights directly. Use {', '.join(LORA_TARGETS['wavlm'])}."
        )
    alpha: Any = lora.alpha  # annotated as a whole number there, and divided by the rank
    config = LoraConfig(r=lora.rank, lora_alpha=alpha, lora_dropout=lora.dropout, target_modules=list(targets))
    encoder.network = inject_adapter_in_model(config, encoder.network)
    encoder.freeze_feature_extractor()


def _wrapped(network: Any, normalize: bool) -> PretrainedEncoder:
    family = network.config.model_type
    if family == "whisper":
        return WhisperEncoder(network)
    return FbankEncoder(network) if family == "wav2vec2-bert" else WaveEncoder(network, normalize)


def _switch_off_masking(config: Any) -> None:
    # Zero chances rather than `apply_spec_augment=False`: with chances, there is a parameter for masked frames, which
    # would get no gradient, and several processes would wait for it.
    for key in ("mask_time_prob", "mask_feature_prob", "layerdrop", "encoder_layerdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    if getattr(config, "add_adapter", False):
        logger.info("The convolutions after the last layer (add_adapter) are left out.")
        config.add_adapter = False


def _wants_normalized_audio(name: str, config: Any) -> bool:
    """As the checkpoint's preprocessor says; without one, as large models do."""
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
    """Without the progress bars and remarks of `transformers`."""
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
