"""The output of a frozen encoder for each utterance, computed once and cached on disk.

    cache = FeatureCache("features", recognizer)
    cache.fill(manifest)
    dataset = SpeechDataset(manifest, vocabulary, reader=FeatureReader(cache, manifest))
    model = FeatureRecognizer(recognizer)

Guarantees: the features of an utterance are computed from that utterance alone, so they do not depend on batches. Files
are written atomically: an interrupted run can be resumed, and several runs can fill and use one folder at the same
time. Other encoders and changed audio have other file names.

    features/<digest of the encoder>/<two digits>/<digest of the utterance>.npy       (F, L, D) float32

One second of audio takes 50 frames * layers * width * 4 bytes: 0.7 MB for whisper-base with all layers, 5 MB for XLS-R
with 300 million parameters. A linear head needs the last layer only.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..runtime.progress import Track, untracked
from ..speech.audio import MIN_DURATION, SAMPLE_RATE, AudioError
from ..speech.dataset import AudioReader, OnBadAudio, SpeechDataset, TextArray
from ..speech.loader import load_batches
from ..speech.manifest import Manifest
from ..speech.utterance import Utterance
from ..speech.vocabulary import Vocabulary
from ..storage.atomic import atomic_write_bytes
from ..storage.paths import PathLike
from ..storage.remote import is_url
from ..storage.tensors import tensors_digest
from .recognizer import Recognizer, RecognizerOutput


class DurationLimits(Protocol):
    """What a reader needs of an encoder."""

    min_samples: int
    max_samples: int | None


class FeatureCache:
    """The features of one frozen encoder, in a folder that other encoders may share."""

    def __init__(self, folder: PathLike, recognizer: Recognizer) -> None:
        if not recognizer.settings.freeze_encoder:
            raise ValueError("`recognizer` must be built with `freeze_encoder=True`: otherwise its features change.")
        self._recognizer = recognizer
        encoder = recognizer.encoder
        self.shape = (1 if recognizer.settings.head == "linear" else encoder.num_layers, encoder.width)
        # Everything that features depend on, except the audio.
        digest = _digest([encoder.options, recognizer.settings.head == "linear", tensors_digest(encoder.state_dict())])
        self.folder = Path(folder) / digest[:16]

    def path(self, utterance: Utterance) -> Path:
        """The file of an utterance's features, whether it exists or not."""
        name = utterance.audio_filepath
        if not is_url(name):
            name = os.path.abspath(name)
        try:
            state = os.stat(name)
            version = [state.st_size, state.st_mtime_ns]
        except OSError:  # reported when the audio is read
            version = []
        digest = _digest([name, utterance.offset, utterance.duration, *version])
        return self.folder / digest[:2] / f"{digest[2:]}.npy"

    def fill(
        self,
        manifest: Manifest,
        *,
        on_bad_audio: OnBadAudio = "fail",
        num_workers: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        track: Track = untracked,
    ) -> None:
        """Computes the missing features; with several ranks, those of this rank."""
        paths = [self.path(utterance) for utterance in manifest]
        # Each rank has fixed positions, because the set of missing files changes while other ranks write.
        missing = [index for index in range(rank, len(paths), num_ranks) if not _is_whole(paths[index])]
        if not missing:
            return
        reader = audio_reader([self._recognizer.encoder], manifest)
        dataset = SpeechDataset(manifest, on_bad_audio=on_bad_audio, reader=reader)
        device = next(self._recognizer.parameters()).device
        batches = load_batches(dataset, [[index] for index in missing], num_workers)
        with torch.inference_mode():
            for batch in track(batches, "computing features of the frozen encoder", len(missing)):
                for index in batch.indices.tolist():
                    hidden, _ = self._recognizer.encode(batch.inputs.to(device), batch.lengths)
                    file = io.BytesIO()
                    np.save(file, hidden[0].float().cpu().numpy())
                    paths[index].parent.mkdir(parents=True, exist_ok=True)
                    atomic_write_bytes(paths[index], file.getvalue())


class FeatureReader:
    """Reads the features of an utterance, (F, L, D) float32, from a filled cache."""

    def __init__(self, cache: FeatureCache, manifest: Manifest) -> None:
        self._paths = TextArray(os.fspath(cache.path(utterance)) for utterance in manifest)
        self._audio_paths = TextArray(utterance.audio_filepath for utterance in manifest)
        self._shape = cache.shape

    def __call__(self, index: int) -> npt.NDArray[np.float32]:
        path = self._paths[index]
        try:
            features = np.load(path, allow_pickle=False)
            if features.ndim != 3 or features.shape[1:] != self._shape:
                raise ValueError(f"shape {features.shape}, expected (frames, {self._shape[0]}, {self._shape[1]})")
            return features
        except FileNotFoundError as error:
            raise AudioError(
                f"{self._audio_paths[index]}: no cached features in {Path(path).parents[1]}. Has the audio changed?"
            ) from error
        except (ValueError, EOFError) as error:
            raise AudioError(f"{path}: not the features of an utterance ({error}). Remove the file.") from error


class FeatureRecognizer(nn.Module):
    """A recognizer whose inputs are cached features, (B, F, L, D), instead of audio."""

    def __init__(self, recognizer: Recognizer) -> None:
        super().__init__()
        self.recognizer = recognizer

    def forward(self, features: Tensor, num_frames: Tensor) -> RecognizerOutput:
        return self.recognizer.apply_head(features, num_frames)


def speech_dataset(
    recognizer: Recognizer, cache: FeatureCache | None, manifest: Manifest, vocabulary: Vocabulary, **options: Any
) -> SpeechDataset:
    """A dataset of inputs for a recognizer: cached features if there is a cache, otherwise audio."""
    reader = audio_reader([recognizer.encoder], manifest) if cache is None else FeatureReader(cache, manifest)
    return SpeechDataset(manifest, vocabulary, reader=reader, **options)


def audio_reader(encoders: Sequence[DurationLimits], manifest: Manifest) -> AudioReader:
    """An audio reader that accepts the durations that all of these encoders accept."""
    return AudioReader(manifest, *duration_bounds(encoders))


def duration_bounds(encoders: Sequence[DurationLimits]) -> tuple[float, float]:
    """The shortest and the longest audio, in seconds, that all of these encoders accept."""
    shortest = max(one.min_samples for one in encoders) / SAMPLE_RATE
    longest = min(math.inf if one.max_samples is None else one.max_samples / SAMPLE_RATE for one in encoders)
    return max(MIN_DURATION, shortest), longest


def _is_whole(path: Path) -> bool:
    """Whether a file has the size given in its header: a power failure can truncate files that were not flushed."""
    try:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            return os.fstat(file.fileno()).st_size == file.tell() + math.prod(shape) * kind.itemsize
    except (OSError, ValueError):
        return False


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
