"""`ShardDataset`: the utterances of shards, with their audio read from the tar files on demand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...storage.remote import read_range
from ..audio import (
    MIN_DURATION,
    SAMPLE_RATE,
    AudioError,
    Samples,
    Seconds,
    decode_audio,
    not_read,
)
from ..batch import LoadedUtterance
from ..dataset import Augment, OnBadAudio, UtteranceDataset, check_duration
from ..vocabulary import Vocabulary
from .index import ShardIndex


class ShardAudioReader:
    """Reads the samples of an utterance at 16 kHz. Raises an `AudioError` if the duration is out of bounds."""

    def __init__(
        self, index: ShardIndex, min_duration: Seconds = MIN_DURATION, max_duration: Seconds = math.inf
    ) -> None:
        self.index = index
        self.min_duration = min_duration
        self.max_duration = max_duration

    def __call__(self, number: int) -> Samples:
        place = self.index.location(number)
        try:
            content = read_range(place.path, place.start, place.size)
        except OSError as error:
            raise not_read(place.path, error) from error
        if len(content) < place.size:
            raise AudioError(f"{place.path}: ends before byte {place.start + place.size:,}. Copy this shard again.")
        samples = decode_audio(content, place.path, self.index[number].duration)
        check_duration(place.path, len(samples) / SAMPLE_RATE, self.min_duration, self.max_duration)
        return samples


class ShardDataset(UtteranceDataset):
    """The utterances of shards, or some of them.

    Args:
        vocabulary, on_bad_audio, augment: as for `SpeechDataset`.
        reader: reads audio, by default of any duration.
        numbers: the utterances; by default all.
    """

    def __init__(
        self,
        index: ShardIndex,
        vocabulary: Vocabulary,
        *,
        on_bad_audio: OnBadAudio = "fail",
        reader: ShardAudioReader | None = None,
        augment: Augment | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        super().__init__(on_bad_audio, augment)
        self._index = index
        self._vocabulary = vocabulary
        self._reader = reader or ShardAudioReader(index)
        self._numbers = range(len(index)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def _read(self, index: int) -> Samples:
        return self._reader(self._numbers[index])

    def _label(self, inputs: Samples, index: int) -> LoadedUtterance:
        number = self._numbers[index]
        utterance = self._index[number]
        labels = self._vocabulary.encode(utterance.text, utterance.lang)
        return LoadedUtterance(inputs, labels, self._index.group_of(number), index)

    def _where(self, index: int) -> str:
        return self._index.where(self._numbers[index])
