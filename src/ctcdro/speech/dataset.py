"""`SpeechDataset`: the utterances of a manifest, read from their files on demand.

A reader returns the inputs of an utterance: `AudioReader` its samples, the reader of a feature cache the output of a
frozen encoder. A dataset stores everything in arrays, so that worker processes share the memory of their parent.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from ..storage.remote import is_url
from .audio import (
    MIN_DURATION,
    SAMPLE_RATE,
    AudioError,
    Samples,
    Seconds,
    UnreachableError,
    read_audio,
)
from .batch import LoadedUtterance, Skipped
from .manifest import Manifest
from .vocabulary import Vocabulary

OnBadAudio: TypeAlias = Literal["fail", "skip"]

InputReader: TypeAlias = Callable[[int], npt.NDArray[np.float32]]
"""Index of an utterance -> its inputs, one row per sample or frame. Raises `AudioError`."""

Augment: TypeAlias = Callable[[npt.NDArray[np.float32], int, int], npt.NDArray[np.float32]]
"""Inputs, epoch, index of the utterance -> other inputs. A pure function, such as `AudioAugmentation`."""


def check_audio_exists(manifests: Iterable[Manifest]) -> None:
    """Checks that all audio files exist, so that a missing one stops a run before it starts.

    Files are not opened, and URLs are not checked.
    """
    missing = [
        (manifest.where(index), utterance.audio_filepath)
        for manifest in manifests
        for index, utterance in enumerate(manifest)
        if not (is_url(utterance.audio_filepath) or os.path.exists(utterance.audio_filepath))
    ]
    if missing:
        where, path = missing[0]
        raise AudioError(
            f"{where}: {path}: no such file; the audio of {len(missing):,} utterances is missing. List them with "
            "`ctcdro check --headers-only`, or skip them with data.on_bad_audio: skip."
        )


class TextArray:
    """A sequence of texts in two arrays.

    A worker process shares the memory of its parent until one of them writes to it. Reading a Python object changes its
    reference count, so a list of a million texts would gradually be copied into every worker.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]  # some file names are not UTF-8
        self._bytes = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)])

    def __getitem__(self, index: int) -> str:
        start, stop = self._ends[index : index + 2]
        return self._bytes[start:stop].tobytes().decode("utf-8", "surrogatepass")


def check_duration(path: str, duration: Seconds, shortest: Seconds, longest: Seconds) -> None:
    """Rejects audio that a model cannot process."""
    if not shortest <= duration <= longest:
        bound = f"less than {shortest:g} s" if duration < shortest else f"more than {longest:g} s"
        raise AudioError(f"{path}: {duration:.3f} s of audio, {bound}. Remove it from the manifest.")


class AudioReader:
    """Reads the samples of an utterance at 16 kHz. Raises an `AudioError` if the duration is out of bounds."""

    def __init__(
        self, manifest: Manifest, min_duration: Seconds = MIN_DURATION, max_duration: Seconds = math.inf
    ) -> None:
        self.min_duration = min_duration
        self.max_duration = max_duration
        self._paths = TextArray(utterance.audio_filepath for utterance in manifest)
        self._offsets = np.array([utterance.offset for utterance in manifest])
        self._durations = manifest.durations

    def __call__(self, index: int) -> Samples:
        path = self._paths[index]
        samples = read_audio(path, float(self._offsets[index]), float(self._durations[index]))
        check_duration(path, len(samples) / SAMPLE_RATE, self.min_duration, self.max_duration)
        return samples


class UtteranceDataset(Dataset[LoadedUtterance | Skipped], ABC):
    """Utterances that are read on demand, and what happens to one that cannot be read."""

    def __init__(self, on_bad_audio: OnBadAudio, augment: Augment | None) -> None:
        if on_bad_audio not in get_args(OnBadAudio):
            raise ValueError(f'`on_bad_audio` must be "fail" or "skip"; got {on_bad_audio!r}.')
        self.on_bad_audio = on_bad_audio
        self._augment = augment
        self._epoch = 0

    @abstractmethod
    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the augmentation. Workers that have already started keep theirs."""
        self._epoch = epoch

    def __getitem__(self, index: int) -> LoadedUtterance | Skipped:
        index = range(len(self))[index]
        try:
            inputs = self._read(index)
        except AudioError as error:
            message = f"{self._where(index)}: {error}"
            if isinstance(error, UnreachableError):
                raise UnreachableError(message) from error
            if self.on_bad_audio == "skip":
                return Skipped(message)
            raise AudioError(message) from error
        if self._augment is not None:
            inputs = self._augment(inputs, self._epoch, index)
        return self._label(inputs, index)

    @abstractmethod
    def _read(self, index: int) -> npt.NDArray[np.float32]:
        """The inputs of an utterance. Raises `AudioError`."""

    @abstractmethod
    def _label(self, inputs: npt.NDArray[np.float32], index: int) -> LoadedUtterance:
        """Adds the labels and the group of an utterance to its inputs."""

    @abstractmethod
    def _where(self, index: int) -> str:
        """File and line of an utterance, for messages."""


class SpeechDataset(UtteranceDataset):
    """The utterances of a manifest.

    Args:
        manifest: the utterances, with texts normalized in the same way as those of the vocabulary.
        vocabulary: encodes texts as labels; None for no labels.
        group_numbers: (n,) group of each utterance, or (n, G) shares of groups; by default the position of its
            language in the vocabulary, which is the same in all splits.
        on_bad_audio: "fail" raises an `AudioError` if an utterance cannot be read, "skip" returns `Skipped`.
        reader: reads the inputs of an utterance; by default `AudioReader(manifest)`.
        augment: changes the inputs of an utterance in each epoch; None for no change.
    """

    def __init__(
        self,
        manifest: Manifest,
        vocabulary: Vocabulary | None = None,
        group_numbers: npt.ArrayLike | None = None,
        *,
        on_bad_audio: OnBadAudio = "fail",
        reader: InputReader | None = None,
        augment: Augment | None = None,
    ) -> None:
        super().__init__(on_bad_audio, augment)
        languages = sorted({language for utterance in manifest for language in utterance.languages})
        if vocabulary is not None and (missing := sorted(set(languages) - set(vocabulary.languages))):
            raise ValueError(
                f"`vocabulary` has no token for {', '.join(missing)} (it has {', '.join(vocabulary.languages)}). "
                "Create it from the training data, and exclude other languages."
            )
        if group_numbers is None:
            group_numbers = manifest.groups(names=vocabulary.languages if vocabulary else None).membership
        groups = np.asarray(group_numbers)
        kind = np.integer if groups.ndim == 1 else np.floating
        if groups.ndim not in (1, 2) or len(groups) != len(manifest) or not np.issubdtype(groups.dtype, kind):
            raise ValueError(
                f"`group_numbers` must have one integer, or one row of shares, for each of {len(manifest):,} "
                f"utterances, such as `manifest.groups().membership`; got shape {groups.shape} of {groups.dtype}."
            )
        self.vocabulary = vocabulary
        self._reader = AudioReader(manifest) if reader is None else reader
        self._texts = TextArray(utterance.text if vocabulary is not None else "" for utterance in manifest)
        self._languages = languages
        spoken = [list(utterance.languages) for utterance in manifest]
        self._language_numbers = np.searchsorted(languages, [name for names in spoken for name in names])
        self._language_ends = np.cumsum([0, *map(len, spoken)])
        self._groups = groups.astype(np.int64 if groups.ndim == 1 else np.float32)
        self._manifest_path = manifest.path
        self._lines = np.array(manifest.lines, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._groups)

    def _read(self, index: int) -> npt.NDArray[np.float32]:
        return self._reader(index)

    def _label(self, inputs: npt.NDArray[np.float32], index: int) -> LoadedUtterance:
        labels: list[int] = []
        start, stop = self._language_ends[index : index + 2]
        if self.vocabulary is not None:
            spoken = [self._languages[number] for number in self._language_numbers[start:stop]]
            labels = self.vocabulary.encode(self._texts[index], spoken)
        group = int(self._groups[index]) if self._groups.ndim == 1 else self._groups[index]
        return LoadedUtterance(inputs, labels, group, index, int(stop - start))

    def _where(self, index: int) -> str:
        return f"utterance {index}" if self._manifest_path is None else f"{self._manifest_path}:{self._lines[index]}"
