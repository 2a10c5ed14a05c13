"""The recognizer: an encoder, a head, and one CTC loss per utterance.

    model = build("facebook/wav2vec2-xls-r-300m", len(vocabulary))
    output = model(batch.inputs, batch.lengths)
    losses = model.losses(output, batch.targets, batch.num_labels)  # (B,), for an objective

Guarantees: the logits of an utterance do not depend on the rest of its batch; losses are computed in float32,
regardless of the precision of the model; `load` restores a saved recognizer bit for bit, without network access.
Numbers of samples and frames may stay in host memory, and are returned there.

The encoder is a checkpoint of Hugging Face `transformers`, or `mel-small`, which is trained from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..objectives.ctc import Normalization, ctc_losses
from ..speech.audio import SAMPLE_RATE
from ..speech.vocabulary import Vocabulary
from ..storage.paths import PathLike
from ..storage.tensors import load_tensors
from .encoders.attention import mask_without_waiting
from .encoders.base import PretrainedEncoder
from .encoders.lora import Lora, add_lora
from .encoders.mel_small import MEL_SMALL, MelSmall
from .encoders.pretrained import from_options, from_pretrained
from .heads import Head, LinearHead, make_head
from .saving import (
    CHARACTERS,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    limit_size,
    load_vocabulary,
    read_model_config,
    write_model_folder,
)
from .settings import RecognizerSettings, recognizer_settings


class RecognizerOutput(NamedTuple):
    logits: Tensor
    """(B, F, V) scores of labels; undefined after the end of an utterance."""
    num_frames: Tensor
    """(B,) frames per utterance."""


class Recognizer(nn.Module):
    """An encoder, (B, T) audio -> hidden layers, and a head, hidden layers -> (B, F, V) logits.

    Create one with `build` or `load`.
    """

    def __init__(self, encoder: PretrainedEncoder | MelSmall, settings: RecognizerSettings) -> None:
        super().__init__()
        self.settings = settings
        self.trains_encoder = not settings.freeze_encoder
        """Whether the encoder computes gradients. A loop may switch it off for some steps; dropout stays on."""
        self.encoder = encoder
        self.head = make_head(
            settings.head,
            encoder.width,
            encoder.num_layers,
            settings.vocabulary_size,
            spec_augment=settings.spec_augment,
        )
        if settings.spec_augment and settings.head == "linear":
            encoder.add_spec_augment()
        if isinstance(encoder, PretrainedEncoder):
            mask_without_waiting(encoder.network)
            if settings.lora is not None:
                add_lora(encoder, settings.lora)
            if settings.gradient_checkpointing:
                encoder.checkpoint_gradients()
            if settings.freeze_encoder:
                encoder.requires_grad_(False)
                encoder.freeze_feature_extractor()
        self.train()  # `from_pretrained` returns modules in evaluation mode, with dropout off

    def forward(self, audio: Tensor, num_samples: Tensor) -> RecognizerOutput:
        """Returns the logits of every frame.

        Args:
            audio: (B, T) float32 at 16 kHz, zero after the end of each utterance.
            num_samples: (B,) samples per utterance.

        Raises:
            ValueError: if an utterance is too short for one frame, or too long for the encoder.
        """
        return self._output(*self._hidden_layers(audio, num_samples))

    def encode(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, L, D) hidden layers that the head uses, and (B,) frames. Can be cached if the encoder is frozen."""
        hidden, num_frames = self._hidden_layers(audio, num_samples)
        return torch.stack(hidden, 2), num_frames

    def apply_head(self, features: Tensor, num_frames: Tensor) -> RecognizerOutput:
        """The rest of `forward`, from the output of `encode`."""
        return self._output(features.unbind(2), num_frames)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Exact number of output frames for each number of input samples."""
        return self.head.num_frames(self.encoder.num_frames(num_samples))

    def frame_times(self, num_frames: int) -> npt.NDArray[np.float64]:
        """(F,) seconds from the start of an utterance to the center of each output frame."""
        stride = self.encoder.frame_stride * self.head.subsampling
        return (self.encoder.first_frame_center + stride * np.arange(num_frames)) / SAMPLE_RATE

    @property
    def frame_seconds(self) -> float:
        """Seconds from one output frame to the next."""
        return self.encoder.frame_stride * self.head.subsampling / SAMPLE_RATE

    def losses(
        self, output: RecognizerOutput, targets: Tensor, num_labels: Tensor, normalization: Normalization = "none"
    ) -> Tensor:
        """(B,) float32 CTC losses of (B, S) targets, infinite if a transcript does not fit its frames."""
        with torch.autocast(output.logits.device.type, enabled=False):
            log_probs = output.logits.float().log_softmax(-1).transpose(0, 1)
            return ctc_losses(log_probs, targets, output.num_frames, num_labels, normalization=normalization)

    def train(self, mode: bool = True) -> Recognizer:
        """Sets training mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        if self.settings.freeze_encoder:
            self.encoder.eval()
        return self

    def save(self, folder: PathLike, vocabulary: Vocabulary, weights: Mapping[str, Tensor] | None = None) -> None:
        """Writes a folder for `load` atomically. It may replace an earlier recognizer, but no other folder.

        Args:
            weights: the state of a recognizer whose parameters are sharded, gathered; by default `state_dict()`.
        """
        check_vocabulary(self, vocabulary)
        config = {"settings": asdict(self.settings), "encoder": self.encoder.options}
        if vocabulary.characters_by_language is not None:
            config[CHARACTERS] = vocabulary.characters_by_language
        write_model_folder(folder, config, self.state_dict() if weights is None else weights, vocabulary)

    def _hidden_layers(self, audio: Tensor, num_samples: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        self._check_audio(audio, num_samples)
        audio = audio[:, : int(num_samples.max())]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.trains_encoder):
            hidden = self.encoder(audio, num_samples, all_layers=not isinstance(self.head, LinearHead))
        return hidden, self.encoder.num_frames(num_samples)

    def _output(self, hidden: Sequence[Tensor], num_frames: Tensor) -> RecognizerOutput:
        return RecognizerOutput(self.head(hidden, num_frames), self.head.num_frames(num_frames))

    def _check_audio(self, audio: Tensor, num_samples: Tensor) -> None:
        if audio.ndim != 2 or num_samples.shape != audio.shape[:1] or not len(audio):
            raise ValueError(
                "`audio` must have shape (utterances, samples), and `num_samples` one entry per utterance; got "
                f"{tuple(audio.shape)} and {tuple(num_samples.shape)}."
            )
        name, least, most = self.settings.encoder, self.encoder.min_samples, self.encoder.max_samples
        shortest, longest = int(num_samples.min()), int(num_samples.max())
        if longest > audio.shape[1]:
            raise ValueError(f"`num_samples` is {longest:,}, but `audio` has only {audio.shape[1]:,} samples.")
        if shortest < least:
            raise ValueError(f"`num_samples` is {shortest:,}; {name} needs {least:,} for one frame. Skip such audio.")
        if most is not None and longest > most:
            raise ValueError(
                f"`num_samples` is {longest:,} ({longest / SAMPLE_RATE:.1f} s); {name} accepts up to {most:,} "
                f"({most / SAMPLE_RATE:g} s). Split or skip such audio."
            )


def build(
    encoder: str,
    vocabulary_size: int,
    *,
    head: Head | None = None,
    freeze_encoder: bool = False,
    lora: Lora | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    spec_augment: bool | None = None,
    seed: int | None = None,
) -> Recognizer:
    """Builds a recognizer for training.

    Args:
        encoder: `mel-small`, or a checkpoint of `transformers`: a folder, or a name on the Hugging Face Hub.
        vocabulary_size: number of labels, including the blank.
        head: "transformer" (the paper's, and the default), "convolution" (fast on a CPU), or "linear" (the default and
            only head for `mel-small`).
        freeze_encoder: whether to train only the head.
        lora: settings of LoRA, to train low-rank matrices instead of the encoder's weights; a `Lora` or its fields.
        gradient_checkpointing: whether to save memory in the encoder, at the cost of a third more time.
        spec_augment: whether to apply SpecAugment in training: in the head or, with a linear head, to the input of the
            encoder's layers. By default, only without a linear head.
        seed: seed of the initial weights; torch's generator is left unchanged. By default, weights are drawn from
            torch's generator.

    Raises:
        ValueError: if arguments are incompatible, or the family of the checkpoint is not supported.

    Example:
        >>> model = build("mel-small", vocabulary_size=40, seed=0)
        >>> output = model(torch.randn(2, 16_000), torch.tensor([16_000, 8_000]))
        >>> output.logits.shape, output.num_frames
        (torch.Size([2, 33, 40]), tensor([33, 16]))
        >>> model.losses(output, torch.tensor([[3, 5, 6], [3, 4, 0]]), torch.tensor([3, 2])).shape
        torch.Size([2])
    """
    settings = recognizer_settings(
        encoder,
        vocabulary_size,
        head=head,
        freeze_encoder=freeze_encoder,
        lora=lora,
        gradient_checkpointing=gradient_checkpointing,
        spec_augment=spec_augment,
    )
    with seeded(seed):
        return Recognizer(MelSmall() if encoder == MEL_SMALL else from_pretrained(encoder), settings)


def load(folder: PathLike) -> tuple[Recognizer, Vocabulary]:
    """Loads a folder written by `Recognizer.save`, in evaluation mode, on the CPU. Errors name the invalid file."""
    folder = Path(folder)
    config = read_model_config(folder)
    tensors = load_tensors(folder / WEIGHTS)
    with seeded(0), _NoRandomNumbers(), limit_size(tensors):
        try:
            model = _from_config(config)
        except Exception as error:  # any type: sizes may have another type, be negative, or exceed the memory
            raise ValueError(f"{folder / CONFIG}: cannot build a recognizer from it: {error!r:.500}") from error
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS}: not the weights of this recognizer: {error!s:.2000}") from error
    check_vocabulary(model, Vocabulary.load(folder / VOCABULARY), source=f"{folder / VOCABULARY}:")
    return model.eval(), load_vocabulary(folder)


def _from_config(config: dict[str, Any]) -> Recognizer:
    lora = config["settings"]["lora"]
    settings = RecognizerSettings(**{**config["settings"], "lora": Lora(**lora) if lora else None})
    is_mel = settings.encoder == MEL_SMALL
    return Recognizer(MelSmall(**config["encoder"]) if is_mel else from_options(config["encoder"]), settings)


def check_vocabulary(model: Recognizer, vocabulary: Vocabulary, source: str = "`vocabulary` has") -> None:
    """Rejects a vocabulary whose size is not the recognizer's."""
    if len(vocabulary) != model.settings.vocabulary_size:
        raise ValueError(
            f"{source} {len(vocabulary)} labels, but the recognizer was built with `vocabulary_size` "
            f"{model.settings.vocabulary_size}. Use the vocabulary of its training."
        )


class _NoRandomNumbers(TorchFunctionMode):
    """Leaves memory that would be filled with random weights as it is, because `load` overwrites them.

    For hundreds of millions of weights, random numbers take seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # By name: transformers replaces the functions of `torch.nn.init` by its own.
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """With a seed, seeds torch's CPU generator and restores it afterwards."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
