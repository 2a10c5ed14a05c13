"""What a frozen encoder gives for each utterance, computed once and kept on disk.

    cache = FeatureCache("features", recognizer)
    cache.fill(manifest)
    dataset = CachedDataset(cache, manifest, vocabulary)        # its batches go where those of audio go

What one can rely on: features are those of the utterance alone, so that they do not depend on what was computed before
or beside them; a file appears whole or not at all, so that work goes on where it was stopped, and several runs can fill
and use one folder at the same time. Another encoder, or audio that has changed since, has other files.

    features/<digest of the encoder>/<two digits>/<digest of the utterance>.npy       (F, L, D) float32

A second of audio takes 50 frames times layers times width times 4 bytes: 0.7 MB for whisper-base with all its layers,
5 MB for XLS-R of 300 million parameters, and a part of that with a linear head, which looks at the last layer only.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..runtime.progress import Track, untracked
from ..speech.audio import MIN_DURATION, SAMPLE_RATE, AudioError, Samples
from ..speech.loading import SpeechDataset, load_batches
from ..speech.manifest import Manifest
from ..speech.utterance import Utterance
from ..speech.vocabulary import Vocabulary
from ..storage.atomic import atomic_write_bytes
from ..storage.paths import PathLike
from ..storage.tensors import tensors_digest
from .recognizer import Recognizer


class FeatureCache:
    """The features of one encoder.

    Args:
        folder: where they are kept, beside those of other encoders.
        recognizer: its encoder must be frozen.

    Raises:
        ValueError: if the encoder is trained.
    """

    def __init__(self, folder: PathLike, recognizer: Recognizer) -> None:
        if not recognizer.settings.freeze_encoder:
            raise ValueError("`recognizer` must be built with `freeze_encoder`, or its features would change.")
        self._recognizer = recognizer
        encoder = recognizer.encoder
        self.shape = (1 if recognizer.settings.head == "linear" else encoder.num_layers, encoder.width)
        self.folder = Path(folder) / _encoder_digest(recognizer)

    def path(self, utterance: Utterance) -> Path:
        """Of its features, whether they are there or not."""
        path = Path(utterance.audio_filepath)
        try:
            state = path.stat()
            version = [state.st_size, state.st_mtime_ns]
        except OSError:  # told where the audio is read
            version = []
        digest = _digest([os.path.abspath(path), utterance.offset, utterance.duration, *version])
        return self.folder / digest[:2] / f"{digest[2:]}.npy"

    def fill(
        self,
        manifest: Manifest,
        *,
        skip_faults: bool = False,
        num_workers: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        track: Track = untracked,
    ) -> None:
        """Computes what is missing; with several ranks, the share of this one.

        Raises:
            AudioError: if audio cannot be read, unless `skip_faults`.
        """
        paths = [self.path(utterance) for utterance in manifest]
        # Each rank has fixed positions: what is missing changes while the others write.
        missing = [index for index in range(rank, len(paths), num_ranks) if not _is_whole(paths[index])]
        if not missing:
            return
        dataset = SpeechDataset(manifest, on_fault="skip" if skip_faults else "stop", **_limits(self._recognizer))
        device = next(self._recognizer.parameters()).device
        batches = load_batches(dataset, [[index] for index in missing], num_workers)
        with torch.inference_mode():
            for batch in track(batches, "features of the frozen encoder", len(missing)):
                for index in batch.indices.tolist():
                    hidden, _ = self._recognizer.encode(batch.audio.to(device), batch.num_samples)
                    file = io.BytesIO()
                    np.save(file, hidden[0].float().cpu().numpy())
                    paths[index].parent.mkdir(parents=True, exist_ok=True)
                    atomic_write_bytes(paths[index], file.getvalue())


class CachedDataset(SpeechDataset):
    """As `SpeechDataset`, with features instead of audio.

    Args:
        cache: must be filled.
        manifest: the utterances.
        vocabulary: turns texts into labels.
        options: those of `SpeechDataset`.
    """

    def __init__(self, cache: FeatureCache, manifest: Manifest, vocabulary: Vocabulary, **options: Any) -> None:
        super().__init__(manifest, vocabulary, **options)
        self._features = [os.fspath(cache.path(utterance)) for utterance in manifest]
        self._shape = cache.shape

    def _read(self, index: int) -> Samples:
        path = self._features[index]
        try:
            features = np.load(path, allow_pickle=False)
            if features.ndim != 3 or features.shape[1:] != self._shape:
                raise ValueError(f"shape {features.shape}, expected (frames, {self._shape[0]}, {self._shape[1]})")
            return features
        except FileNotFoundError as error:
            raise AudioError(f"{self._paths[index]}: no features of it in {Path(path).parents[1]}.") from error
        except (ValueError, EOFError) as error:
            raise AudioError(f"{path}: not the features of an utterance ({error}); remove the file.") from error


def speech_dataset(
    recognizer: Recognizer, cache: FeatureCache | None, manifest: Manifest, vocabulary: Vocabulary, **options: Any
) -> SpeechDataset:
    """What a recognizer is given: the features of a cache or, where there is none, audio that its encoder takes."""
    if cache is not None:
        return CachedDataset(cache, manifest, vocabulary, **options)
    return SpeechDataset(manifest, vocabulary, **options, **_limits(recognizer))


def _is_whole(path: Path) -> bool:
    """Whether a file has the length in its header: a power failure can truncate files that are not flushed."""
    try:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            return os.fstat(file.fileno()).st_size == file.tell() + math.prod(shape) * kind.itemsize
    except (OSError, ValueError):
        return False


def _limits(recognizer: Recognizer) -> dict[str, Any]:
    """The durations that its encoder takes, as options of `SpeechDataset`."""
    encoder = recognizer.encoder
    longest = math.inf if encoder.max_samples is None else encoder.max_samples / SAMPLE_RATE
    return {"min_duration": max(MIN_DURATION, encoder.min_samples / SAMPLE_RATE), "max_duration": longest}


def _encoder_digest(recognizer: Recognizer) -> str:
    """Of all that features depend on, the audio apart."""
    encoder, head = recognizer.encoder, recognizer.settings.head
    return _digest([encoder.options, head == "linear", tensors_digest(encoder.state_dict())])[:16]


def _digest(of: Any) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()
