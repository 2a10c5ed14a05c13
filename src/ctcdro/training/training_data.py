"""The training data of a run: a manifest, train.jsonl, or shards in the folder train."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..models.feature_cache import FeatureCache, duration_bounds, speech_dataset
from ..models.recognizer import Recognizer
from ..prepare.statistics import Statistics
from ..runtime.progress import Track, untracked
from ..sampling.adaptive import AdaptiveBatchSampler
from ..sampling.base import PlannedBatchSampler
from ..sampling.chunks import ChunkedBatchSampler
from ..sampling.planned_rounds import PassLimit, Weighted
from ..sampling.samplers import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
from ..speech.dataset import Augment, UtteranceDataset
from ..speech.manifest import Groups, Manifest
from ..speech.shards.build import open_index
from ..speech.shards.dataset import ShardAudioReader, ShardDataset
from ..speech.shards.index import ShardIndex
from ..speech.shards.layout import has_shards
from ..speech.vocabulary import Vocabulary
from .optimizer import num_steps
from .training_sample import TrainingSample, sample_places, sample_training_data

if TYPE_CHECKING:
    from ..runs.config import Config


class TrainingData(ABC):
    """What a run needs of its training data."""

    utterances: Manifest | ShardIndex
    groups: Groups

    @abstractmethod
    def sampler(self, config: Config, weights: Weighted) -> PlannedBatchSampler: ...

    @abstractmethod
    def dataset(
        self,
        config: Config,
        recognizer: Recognizer,
        cache: FeatureCache | None,
        vocabulary: Vocabulary,
        augment: Augment | None,
    ) -> UtteranceDataset: ...

    @abstractmethod
    def sample(
        self, dev: Manifest, recognizer: Recognizer, cache: FeatureCache | None, vocabulary: Vocabulary
    ) -> TrainingSample:
        """A sample to decode at the end. Audio that cannot be read is skipped."""

    @abstractmethod
    def durations_of(self, numbers: Tensor) -> Tensor:
        """(B,) seconds of some utterances."""

    @abstractmethod
    def digest(self) -> tuple[Path, str]:
        """Name and digest of the data, for checkpoints."""


def read_training_data(config: Config, track: Track = untracked) -> TrainingData:
    """Reads the manifest or the index of the shards of a configuration; builds the index first if necessary.

    Raises:
        ValueError: if there are no training data, or if their kind contradicts the configuration.
    """
    if not has_shards(config.dataset):
        return ManifestData(read_manifest(config.dataset / "train.jsonl"), config.data.group_by)
    if config.sampler not in ("length-matched", "adaptive"):
        raise ValueError(
            f"sampling.sampler: {config.sampler} needs train.jsonl, but the training data of {config.dataset} are "
            "shards. Use length-matched or adaptive."
        )
    if config.model.feature_cache_dir is not None:
        raise ValueError(
            f"model.feature_cache_dir: needs train.jsonl, but the training data of {config.dataset} are shards. Remove "
            "it."
        )
    return ShardData(open_index(config.dataset, config.data.group_by, track))


def read_manifest(path: Path) -> Manifest:
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Create the dataset with `ctcdro prepare`, or correct `dataset`.")
    return Manifest.read(path)


def pass_limit(config: Config) -> PassLimit | None:
    max_passes = config.sampling.max_passes
    if max_passes is None:
        return None
    return PassLimit(max_passes, num_steps(config) * config.optimizer.batches_per_step)


class ManifestData(TrainingData):
    """A manifest, with everything in memory except audio."""

    def __init__(self, manifest: Manifest, group_by: tuple[str, ...]) -> None:
        self.utterances: Manifest = manifest
        self.groups = manifest.groups(group_by)
        self._durations = torch.from_numpy(manifest.durations)

    def sampler(self, config: Config, weights: Weighted) -> PlannedBatchSampler:
        sampling, seed, durations = config.sampling, config.seed, self.utterances.durations
        if config.sampler == "similar-length":
            return SimilarLengthBatchSampler(durations, sampling.batch_size, seed=seed)
        if config.sampler == "group-uniform":
            return GroupUniformBatchSampler(self.groups.numbers, sampling.batch_size, seed=seed)
        options = (sampling.batch_duration, sampling.exponent, seed)
        names: dict[str, Any] = {"group_names": self.groups.names, "where": self.utterances.where}
        limit = pass_limit(config)
        if config.sampler == "length-matched" and limit is None:
            return LengthMatchedBatchSampler(durations, self.groups.numbers, *options, **names)
        weighted = weights if config.sampler == "adaptive" else None
        return AdaptiveBatchSampler(durations, self.groups.numbers, weighted, *options, **names, limit=limit)

    def dataset(
        self,
        config: Config,
        recognizer: Recognizer,
        cache: FeatureCache | None,
        vocabulary: Vocabulary,
        augment: Augment | None,
    ) -> UtteranceDataset:
        options = {"group_numbers": self.groups.membership, "on_bad_audio": config.data.on_bad_audio}
        return speech_dataset(recognizer, cache, self.utterances, vocabulary, augment=augment, **options)

    def sample(
        self, dev: Manifest, recognizer: Recognizer, cache: FeatureCache | None, vocabulary: Vocabulary
    ) -> TrainingSample:
        make_dataset = partial(speech_dataset, recognizer, cache, vocabulary=vocabulary)
        return sample_training_data(self.utterances, dev, self.groups, make_dataset)

    def durations_of(self, numbers: Tensor) -> Tensor:
        return self._durations[numbers]

    def digest(self) -> tuple[Path, str]:
        path = self.utterances.path
        assert path is not None
        return path, hashlib.sha256(path.read_bytes()).hexdigest()


class ShardData(TrainingData):
    """Shards, in memory that does not grow with their number."""

    def __init__(self, index: ShardIndex) -> None:
        self.utterances: ShardIndex = index
        self.groups = index.groups

    def sampler(self, config: Config, weights: Weighted) -> PlannedBatchSampler:
        return ChunkedBatchSampler(
            self.utterances,
            weights if config.sampler == "adaptive" else None,
            config.sampling.batch_duration,
            config.sampling.exponent,
            config.seed,
            group_names=self.groups.names,
            limit=pass_limit(config),
            chunk_size=config.sampling.chunk_size,
        )

    def dataset(
        self,
        config: Config,
        recognizer: Recognizer,
        cache: FeatureCache | None,
        vocabulary: Vocabulary,
        augment: Augment | None,
    ) -> UtteranceDataset:
        reader = ShardAudioReader(self.utterances, *duration_bounds([recognizer.encoder]))
        return ShardDataset(
            self.utterances, vocabulary, on_bad_audio=config.data.on_bad_audio, reader=reader, augment=augment
        )

    def sample(
        self, dev: Manifest, recognizer: Recognizer, cache: FeatureCache | None, vocabulary: Vocabulary
    ) -> TrainingSample:
        index = self.utterances
        sizes = {language: totals.num_utterances for language, totals in index.languages.items()}
        numbers = index.find(sample_places(sizes, dev))
        reader = ShardAudioReader(index, *duration_bounds([recognizer.encoder]))
        dataset = ShardDataset(index, vocabulary, on_bad_audio="skip", reader=reader, numbers=numbers)
        statistics = {
            language: Statistics.from_sums(
                totals.num_utterances,
                totals.seconds,
                totals.seconds_squared,
                totals.num_characters,
                totals.num_characters_squared,
            )
            for language, totals in sorted(index.languages.items())
        }
        languages = dict(zip(index.group_names, index.languages_of_groups(), strict=False))
        return TrainingSample(index.select(numbers), dataset, statistics, languages)

    def durations_of(self, numbers: Tensor) -> Tensor:
        return self.utterances.durations_of(numbers)

    def digest(self) -> tuple[Path, str]:
        return self.utterances.folder, self.utterances.digest
