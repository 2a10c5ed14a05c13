"""The recognizer: an encoder, a head, and one CTC loss per utterance.

    model = build("facebook/wav2vec2-xls-r-300m", len(vocabulary))
    output = model(batch.inputs, batch.lengths)
    losses = model.losses(output, batch.targets, batch.num_labels)  # (B,), for an objective

What one can rely on: the logits of an utterance do not depend on what else is in its batch; losses are computed in
float32 whatever the precision of the rest; `load` gives what `save` was given, bit for bit, without network. Numbers
of samples and frames may stay in the memory of the host, and come back where they were.

The encoder is a checkpoint of Hugging Face `transformers` (see `encoders`), or `mel-small`, which is trained from
scratch and does not need `transformers` (see `mel`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..objectives.ctc import Normalization, ctc_losses
from ..speech.vocabulary import Vocabulary
from ..storage.atomic import atomic_folder, atomic_write
from ..storage.json_files import read_json
from ..storage.paths import PathLike, is_empty
from ..storage.tensors import load_tensors, save_tensors
from .encoders import Lora, PretrainedEncoder, add_lora, from_options, from_pretrained
from .heads import ConvolutionHead, LinearHead, TransformerHead
from .mel_small import MelSmall

MEL_SMALL = "mel-small"
FORMAT = "ctcdro recognizer 1"
CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocab.json"

Head: TypeAlias = Literal["transformer", "linear", "convolution"]


class RecognizerOutput(NamedTuple):
    """What a recognizer says of a batch."""

    logits: Tensor
    """(B, F, V) scores of labels; those after the end of an utterance mean nothing."""
    num_frames: Tensor
    """(B,) frames of each utterance."""


@dataclass(frozen=True)
class Settings:
    """What a recognizer is built from, the weights apart."""

    encoder: str
    """`mel-small`, or the name of the checkpoint."""
    vocabulary_size: int
    head: Head
    freeze_encoder: bool = False
    lora: Lora | None = None
    gradient_checkpointing: bool = False
    spec_augment: bool = False


class Recognizer(nn.Module):
    """An encoder and a head. Made by `build` and `load`.

    Attributes:
        encoder: (B, T) audio -> hidden layers.
        head: hidden layers -> (B, F, V) logits.
        settings: what it was built from.
    """

    def __init__(self, encoder: PretrainedEncoder | MelSmall, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = encoder
        self.head: LinearHead | TransformerHead | ConvolutionHead
        if settings.head == "linear":
            self.head = LinearHead(encoder.width, settings.vocabulary_size)
        else:
            kind = TransformerHead if settings.head == "transformer" else ConvolutionHead
            self.head = kind(
                encoder.width, encoder.num_layers, settings.vocabulary_size, spec_augment=settings.spec_augment
            )
        if isinstance(encoder, PretrainedEncoder):
            if settings.lora is not None:
                add_lora(encoder, settings.lora)
            if settings.gradient_checkpointing:
                encoder.checkpoint_gradients()
            if settings.freeze_encoder:
                encoder.requires_grad_(False)
                encoder.freeze_feature_extractor()
        self.train()  # `from_pretrained` returns modules in evaluation mode, with dropout off

    def forward(self, inputs: Tensor, lengths: Tensor) -> RecognizerOutput:
        """Logits of every frame.

        Args:
            inputs: (B, T) float32 audio at 16 kHz, zero after the end of each utterance; or (B, F, L, D) features
                from `encode`.
            lengths: (B,) samples of each utterance; for features, frames.

        Raises:
            ValueError: if an utterance is too short for one frame, or too long for the encoder.
        """
        is_encoded = inputs.ndim == 4
        hidden, num_frames = (inputs.unbind(2), lengths) if is_encoded else self._encode(inputs, lengths)
        return RecognizerOutput(self.head(hidden, num_frames), self.head.num_frames(num_frames))

    def encode(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        """The output of the encoder, which a frozen encoder computes only once; `forward` accepts it.

        Returns:
            (B, F, L, D) hidden layers that the head uses, and (B,) frames of each utterance.
        """
        hidden, num_frames = self._encode(audio, num_samples)
        return torch.stack(hidden, 2), num_frames

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Frames that come out for samples that go in, exactly."""
        return self.head.num_frames(self.encoder.num_frames(num_samples))

    def losses(
        self, output: RecognizerOutput, targets: Tensor, num_labels: Tensor, normalization: Normalization = "none"
    ) -> Tensor:
        """(B,) float32 CTC losses, infinite where a transcript does not fit.

        Args:
            output: of `forward`.
            targets: (B, S) labels.
            num_labels: (B,) labels of each utterance.
            normalization: as for `ctc_losses`.
        """
        with torch.autocast(output.logits.device.type, enabled=False):
            log_probs = output.logits.float().log_softmax(-1).transpose(0, 1)
            return ctc_losses(log_probs, targets, output.num_frames, num_labels, normalization=normalization)

    def train(self, mode: bool = True) -> Recognizer:
        """As of any module; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        if self.settings.freeze_encoder:
            self.encoder.eval()
        return self

    def save(self, folder: PathLike, vocabulary: Vocabulary) -> None:
        """Writes a folder that `load` reads; it takes its name when all is written, and may replace an earlier one.

        Raises:
            ValueError: if there is something else of that name or in the folder, or the vocabulary is of another size.
        """
        check_vocabulary(self, vocabulary)
        if not is_empty(folder):
            if not Path(folder, CONFIG).exists():
                raise ValueError(f"{folder}: neither a recognizer nor empty, so it is not replaced. Give another name.")
            _read_config(Path(folder))
            visible = {path.name for path in Path(folder).iterdir() if not path.name.startswith(".")}
            if others := visible - {CONFIG, WEIGHTS, VOCABULARY}:
                raise ValueError(
                    f"{folder}: not replaced, because it also has {', '.join(sorted(others)):.200}. Move "
                    "these files, or choose another folder."
                )
        with atomic_folder(folder) as unfinished:
            save_tensors(self.state_dict(), unfinished / WEIGHTS)
            vocabulary.save(unfinished / VOCABULARY)
            config = {"format": FORMAT, "settings": asdict(self.settings), "encoder": self.encoder.options}
            with atomic_write(unfinished / CONFIG) as file:
                json.dump(config, file, ensure_ascii=False, indent=2)

    def _encode(self, audio: Tensor, num_samples: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        audio = self._checked(audio, num_samples)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.settings.freeze_encoder):
            hidden = self.encoder(audio, num_samples, all_layers=not isinstance(self.head, LinearHead))
        return hidden, self.encoder.num_frames(num_samples)

    def _checked(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """The audio up to the end of the longest utterance."""
        if audio.ndim != 2 or num_samples.shape != audio.shape[:1] or not len(audio):
            raise ValueError(
                "`audio` must have shape (utterances, samples), and `num_samples` one entry for each utterance; got "
                f"{tuple(audio.shape)} and {tuple(num_samples.shape)}."
            )
        shortest, longest = int(num_samples.min()), int(num_samples.max())
        if longest > audio.shape[1]:
            raise ValueError(f"`num_samples` has {longest:,}, but `audio` only {audio.shape[1]:,} samples.")
        if shortest < self.encoder.min_samples:
            raise ValueError(
                f"`num_samples` has {shortest:,}; {self.settings.encoder} needs {self.encoder.min_samples:,} for one "
                "frame. Leave such utterances out."
            )
        if self.encoder.max_samples is not None and longest > self.encoder.max_samples:
            raise ValueError(
                f"`num_samples` has {longest:,} ({longest / 16_000:.1f} s); {self.settings.encoder} takes up to "
                f"{self.encoder.max_samples:,} ({self.encoder.max_samples / 16_000:g} s). Cut such "
                "utterances, or leave them out."
            )
        return audio[:, :longest]


def build(
    encoder: str,
    vocabulary_size: int,
    *,
    head: Head | None = None,
    freeze_encoder: bool = False,
    lora: Lora | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    spec_augment: bool = True,
    seed: int | None = None,
) -> Recognizer:
    """A recognizer to be trained.

    Args:
        encoder: `mel-small`, or a checkpoint of `transformers`: a folder, or a name on the hub.
        vocabulary_size: number of labels, the blank among them.
        head: "transformer", the paper's and the default; "convolution", which is fast on a CPU; or "linear", the only
            one for `mel-small` and its default.
        freeze_encoder: whether to train the head alone.
        lora: whether, and how, to train matrices of low rank instead of the encoder itself; a `Lora` or its fields.
        gradient_checkpointing: whether to save memory in the encoder, for a third more time.
        spec_augment: whether the head augments features in training; the linear head never does.
        seed: of the first weights. By default they are drawn from torch's generator as it is; with a seed, the
            generator stays as it was.

    Raises:
        ValueError: if arguments do not go together, or the checkpoint is of an unknown family.
        ImportError: if `transformers`, or `peft` for LoRA, is missing.

    Example:
        >>> model = build("mel-small", vocabulary_size=40, seed=0)
        >>> output = model(torch.randn(2, 16_000), torch.tensor([16_000, 8_000]))
        >>> output.logits.shape, output.num_frames
        (torch.Size([2, 33, 40]), tensor([33, 16]))
        >>> model.losses(output, torch.tensor([[3, 5, 6], [3, 4, 0]]), torch.tensor([3, 2])).shape
        torch.Size([2])
    """
    is_mel = encoder == MEL_SMALL
    head = head or ("linear" if is_mel else "transformer")
    if head not in get_args(Head):
        raise ValueError(f"`head` must be one of {', '.join(get_args(Head))}; got {head!r}.")
    if vocabulary_size < 2:
        raise ValueError(f"`vocabulary_size` must be 2 or more, the blank and a label; got {vocabulary_size}.")
    if is_mel and head != "linear":
        raise ValueError(f'`head` must be "linear" for {MEL_SMALL}; got {head!r}.')
    if is_mel and (freeze_encoder or lora is not None or gradient_checkpointing):
        raise ValueError(
            f"`encoder`: {MEL_SMALL} is small and trained from scratch; it takes neither `freeze_encoder` nor `lora` "
            "nor `gradient_checkpointing`."
        )
    if freeze_encoder and lora is not None:
        raise ValueError("`freeze_encoder` and `lora` exclude each other: LoRA keeps the encoder's own weights anyway.")
    if freeze_encoder and gradient_checkpointing:
        raise ValueError("`gradient_checkpointing` has no use with `freeze_encoder`: there are no gradients.")
    if isinstance(lora, Mapping):
        lora = Lora(**lora)
    spec_augment = spec_augment and head != "linear"
    settings = Settings(encoder, vocabulary_size, head, freeze_encoder, lora, gradient_checkpointing, spec_augment)
    with _seeded(seed):
        return Recognizer(MelSmall() if is_mel else from_pretrained(encoder), settings)


def load(folder: PathLike) -> tuple[Recognizer, Vocabulary]:
    """Reads what `Recognizer.save` wrote; in evaluation mode, on the CPU.

    Raises:
        ValueError: naming the file, if it holds something else.
    """
    folder = Path(folder)
    config = _read_config(folder)
    tensors = load_tensors(folder / WEIGHTS)
    with _seeded(0), _no_larger_than(tensors):  # weights drawn are overwritten; the generator is to stay as it was
        try:
            lora = config["settings"]["lora"]
            settings = Settings(**{**config["settings"], "lora": Lora(**lora) if lora else None})
            is_mel = settings.encoder == MEL_SMALL
            encoder = MelSmall(**config["encoder"]) if is_mel else from_options(config["encoder"])
            model = Recognizer(encoder, settings)
        except Exception as error:  # of any kind: sizes may be of another type, below zero, or too large for memory
            raise ValueError(f"{folder / CONFIG}: no recognizer can be built from it: {error!r:.500}") from error
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS}: not the weights of this recognizer: {error!s:.2000}") from error
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    if len(vocabulary) != settings.vocabulary_size:
        raise ValueError(
            f"{folder / VOCABULARY}: {len(vocabulary)} labels, but the recognizer has {settings.vocabulary_size}."
        )
    return model.eval(), vocabulary


def transcribe(
    model: Recognizer, vocabulary: Vocabulary, audio: Tensor, num_samples: Tensor
) -> list[tuple[str | None, str]]:
    """Language and text of each utterance, by the best label of each frame.

    Example:
        >>> vocabulary = Vocabulary(["ces"], "ahoj")
        >>> model = build("mel-small", len(vocabulary), seed=0)
        >>> len(transcribe(model, vocabulary, torch.randn(2, 16_000), torch.tensor([16_000, 8_000])))
        2
    """
    check_vocabulary(model, vocabulary)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            output = model(audio, num_samples)
    finally:
        model.train(was_training)
    return greedy(output, vocabulary)


def greedy(output: RecognizerOutput, vocabulary: Vocabulary) -> list[tuple[str | None, str]]:
    """Language and text of each utterance, by the best label of each frame.

    Example:
        >>> logits = torch.tensor([[[0.0, 0, 0, 9, 0], [0, 0, 0, 0, 9], [0, 0, 9, 0, 0]]])
        >>> greedy(RecognizerOutput(logits, num_frames=torch.tensor([2])), Vocabulary(["ces"], "a"))
        [('ces', 'a')]
    """
    best, num_frames = output.logits.argmax(-1).tolist(), output.num_frames.tolist()
    return [vocabulary.decode_frames(labels[:number]) for labels, number in zip(best, num_frames, strict=True)]


def check_vocabulary(model: Recognizer, vocabulary: Vocabulary) -> None:
    """Refuses a vocabulary of another size than the recognizer's."""
    if len(vocabulary) != model.settings.vocabulary_size:
        raise ValueError(
            f"`vocabulary` has {len(vocabulary)} labels, but the recognizer was built with `vocabulary_size` "
            f"{model.settings.vocabulary_size}; pass the one it was trained with."
        )


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """With a seed, what is drawn on the CPU within comes from it, and torch's generator is as it was after."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def _no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Stops the building of what is far larger than its weights, before it takes memory or time without end.

    Some parameters are made twice, as those of LoRA and of norms that replace others; hence far.
    """
    most_parameters = 4 * len(tensors) + 100
    most_numbers = 4 * sum(tensor.numel() for tensor in tensors.values()) + 1_000_000
    num_parameters = num_numbers = 0

    def add(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal num_parameters, num_numbers
        num_parameters += 1
        num_numbers += 0 if parameter is None else parameter.numel()
        if num_parameters > most_parameters or num_numbers > most_numbers:
            raise ValueError(f"it would be larger than its {WEIGHTS}")

    handle = register_module_parameter_registration_hook(add)
    try:
        yield
    finally:
        handle.remove()


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: not the configuration of a recognizer: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{path}: not the configuration of a recognizer of this package (no format {FORMAT!r}).")
    return config
