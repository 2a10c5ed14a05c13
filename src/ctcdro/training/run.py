"""The parts of a run and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..decoding.decode import DecodingResult, decode
from ..runs.folder import RunFolder
from .sharding import ShardedForward
from .stop_signals import StopSignals

if TYPE_CHECKING:
    from accelerate import Accelerator

    from ..models.recognizer import Recognizer
    from ..models.starting_point import Copied
    from ..objectives.objective import Objective
    from ..runs.config import Config
    from ..speech.batch import Batch
    from ..speech.dataset import UtteranceDataset
    from ..speech.manifest import Groups, Manifest
    from ..speech.vocabulary import Vocabulary
    from .dev_halves import DevHalves
    from .endless_loader import BatchStream
    from .guard import Guard
    from .host_weights import HostWeights
    from .training_sample import TrainingSample
    from .weight_average import WeightAverage


@dataclass
class Progress:
    step: int = 0
    num_validations: int = 0
    best: float = math.inf
    validations_since_best: int = 0
    seconds: float = 0.0
    """Training time, including the time before restarts."""


@dataclass
class Run:
    """The parts of a run. A checkpoint contains the state of those below the line."""

    config: Config
    folder: RunFolder
    accelerator: Accelerator
    dev: Manifest
    dev_dataset: UtteranceDataset
    dev_halves: DevHalves | None
    """Of the development set, if the group weights follow error rates on it."""
    guard: Guard | None
    """Of the languages, if the objective has a baseline."""
    copied: Copied | None
    """What the recognizer has from another model, if it started from one."""
    training_sample: TrainingSample
    """Decoded at the end, for the diagnosis."""
    vocabulary: Vocabulary
    groups: Groups
    durations_of: Callable[[Tensor], Tensor]
    """(B,) numbers of training utterances -> (B,) their seconds."""
    input_digests: dict[str, str]
    """Digests of inputs that checkpoints do not contain: manifests, pretrained weights."""
    recognizer: Recognizer
    wrapped_model: torch.nn.Module
    """The recognizer, wrapped for devices, precision and processes."""
    host_weights: HostWeights
    """Of the objective, as the sampler sees them."""
    # ---
    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    stream: BatchStream
    weight_average: WeightAverage
    progress: Progress = field(default_factory=Progress)
    stop_signals: StopSignals = field(default_factory=StopSignals)
    """Not part of a checkpoint."""

    @property
    def is_sharded(self) -> bool:
        return self.config.training.sharding == "full"

    def losses(self, batch: Batch) -> Tensor:
        """(B,) losses of a batch, normalized as configured, without synchronizing with the device."""
        output = self.wrapped_model(batch.inputs, batch.lengths)
        normalization = self.config.objective.loss_normalization
        return self.recognizer.losses(output, batch.targets, batch.num_labels, normalization)

    def decode(self, manifest: Manifest, dataset: UtteranceDataset) -> DecodingResult:
        """Decodes a manifest in evaluation mode; all processes must call it."""
        sharded = ShardedForward(self.wrapped_model, self.recognizer) if self.is_sharded else None
        return decode(
            self.recognizer,
            self.vocabulary,
            manifest,
            dataset=dataset,
            forward=sharded or self.wrapped_model,
            idle=sharded.idle if sharded else None,
            batch_duration=self.config.sampling.batch_duration,
            num_workers=self.config.data.num_workers,
        )
