"""Features of utterances for finding groups: layers of an encoder, pooled over time, and the loss of a trained run.

The features of an utterance are the mean and the standard deviation of each dimension over time, for one or several
layers. They do not depend on the rest of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..decoding.decode import group_by_length
from ..models.encoders.base import PretrainedEncoder
from ..models.encoders.mel_small import MEL_SMALL, MelSmall
from ..models.encoders.pretrained import from_pretrained
from ..models.feature_cache import audio_reader
from ..models.log_mel import WINDOW, SmallLogMel, num_windows
from ..models.masks import centered
from ..models.recognizer import Recognizer, load
from ..models.saving import is_model_folder
from ..runs.folder import RunFolder, find_model
from ..runtime.progress import Track, untracked
from ..speech.batch import Batch
from ..speech.dataset import SpeechDataset
from ..speech.loader import load_batches
from ..speech.manifest import Manifest
from ..speech.signal_to_noise import estimate_snr
from ..speech.vocabulary import Vocabulary

Floats: TypeAlias = npt.NDArray[np.float64]
Layers: TypeAlias = tuple[Sequence[Tensor], Tensor]
"""Hidden layers, each (B, F, D), and (B,) frames."""

NUM_MEL_BINS = 80
BATCH_DURATION = 50.0
"""Seconds of padded audio per batch."""


class LogMelEnergies(torch.nn.Module):
    """In place of an encoder: log-mel energies, which have the level and the spectrum of speaker, channel and noise."""

    num_layers = 1
    min_samples = WINDOW
    max_samples: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.log_mel = SmallLogMel(NUM_MEL_BINS)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        return num_windows(num_samples)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        return (self.log_mel.energies(audio),)


Encoder: TypeAlias = PretrainedEncoder | MelSmall | LogMelEnergies


@dataclass(frozen=True)
class TrainedRun:
    """The recognizer of a finished run, whose losses are part of the features."""

    recognizer: Recognizer
    vocabulary: Vocabulary

    def losses(self, layers: Layers, batch: Batch) -> Tensor:
        """(B,) losses per character."""
        output = self.recognizer.apply_head(torch.stack(list(layers[0]), 2), layers[1])
        losses = self.recognizer.losses(output, batch.targets, batch.num_labels)
        return losses.cpu() / batch.num_characters.clamp(min=1)


class Embeddings(NamedTuple):
    """What is known about n utterances."""

    features: Floats
    """(n, D) pooled layers."""
    losses: Floats | None
    """(n,) losses per character of a run, infinite where CTC cannot align the text."""
    signal_to_noise: Floats
    """(n,) decibels, estimated."""


def load_encoder(name: str) -> Encoder:
    """The encoder of a run, or of a saved recognizer; a checkpoint of `transformers`; or `mel-small`, which is not
    trained, so that its input takes the place of its output."""
    if name == MEL_SMALL:
        return LogMelEnergies()
    folder = Path(name)
    if RunFolder(folder).config.exists() or RunFolder(folder).is_finished or is_model_folder(folder):
        return load(find_model(folder))[0].encoder
    return from_pretrained(name)


def load_run(path: str) -> TrainedRun:
    return TrainedRun(*load(find_model(path)))


def choose_layers(num_layers: int, layers: Sequence[int] | None) -> list[int]:
    """Checked layers, counted from the end if negative; by default, the middle one.

    Example:
        >>> choose_layers(7, None), choose_layers(7, [-1]), choose_layers(1, None)
        ([3], [6], [0])
    """
    if layers is None:
        return [num_layers // 2]
    for layer in layers:
        if not -num_layers <= layer < num_layers:
            raise ValueError(
                f"--layer (`layers` in Python) must be between {-num_layers} and {num_layers - 1}: the encoder has "
                f"{num_layers} layers; got {layer}."
            )
    return sorted({layer % num_layers for layer in layers})


def embed(
    manifest: Manifest,
    encoder: Encoder,
    run: TrainedRun | None = None,
    layers: Sequence[int] | None = None,
    *,
    device: torch.device | str = "cpu",
    num_workers: int = 0,
    track: Track = untracked,
) -> Embeddings:
    """Reads all utterances once, and computes their features.

    Args:
        encoder: may be that of the run; it is then computed once.
        run: adds losses.
        layers: numbers of layers, as for `choose_layers`.

    Raises:
        AudioError: if an utterance cannot be read, or the encoder does not accept its duration.
        ValueError: if the run does not know a language of the manifest, or has diverged.
    """
    chosen = choose_layers(encoder.num_layers, layers)
    encoders = [encoder] if run is None or run.recognizer.encoder is encoder else [encoder, run.recognizer.encoder]
    for module in [*encoders, *([run.recognizer] if run else [])]:
        module.to(device).eval()
    vocabulary = None if run is None else run.vocabulary
    dataset = SpeechDataset(manifest, vocabulary, reader=audio_reader(encoders, manifest))
    batches = group_by_length(manifest.durations, BATCH_DURATION)
    features, losses, levels = np.empty((0, 0)), np.full(len(manifest), np.nan), np.empty(len(manifest))
    for batch in track(load_batches(dataset, batches, num_workers), "computing features", len(batches)):
        indices = batch.indices.numpy()
        with torch.inference_mode():
            on_device = batch.to(device)
            found = [_layers(one, on_device) for one in encoders]
            rows = torch.cat([pool(found[0][0][layer], found[0][1]) for layer in chosen], 1).double().cpu().numpy()
            if run is not None:
                losses[indices] = run.losses(found[-1], on_device).double().numpy()
        features = features if features.size else np.empty((len(manifest), rows.shape[1]))
        features[indices] = rows
        audio = zip(batch.inputs.numpy(), batch.lengths.tolist(), strict=True)
        levels[indices] = [estimate_snr(samples[:length]) for samples, length in audio]
    if run is not None and np.isnan(losses).any():
        raise ValueError("The losses of the run are NaN: it has diverged. Choose another run.")
    return Embeddings(features, None if run is None else losses, levels)


def _layers(encoder: Encoder, batch: Batch) -> Layers:
    return encoder(batch.inputs, batch.lengths, all_layers=True), encoder.num_frames(batch.lengths)


def pool(hidden: Tensor, num_frames: Tensor) -> Tensor:
    """(B, F, D) -> (B, 2 D): mean and standard deviation over the frames of each utterance.

    Example:
        >>> pool(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([2]))
        tensor([[2., 1.]])
    """
    hidden = hidden.float()
    deviations = centered(hidden, num_frames)
    count = num_frames.to(hidden)[:, None]
    mean = hidden[:, 0] - deviations[:, 0]
    return torch.cat([mean, (deviations.square().sum(1) / count).sqrt()], 1)
