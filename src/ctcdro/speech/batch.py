"""Padded batches of utterances, with the arguments of `torch.nn.functional.ctc_loss` and `CTCDROLoss`.

Inputs are audio, or the features of a frozen encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class LoadedUtterance:
    inputs: npt.NDArray[np.float32]
    """(T,) samples, or (F, ...) features."""
    labels: list[int]
    group: int | npt.NDArray[np.float32]
    """Group number, or (G,) shares of groups."""
    index: int
    """Position in the manifest."""
    num_language_tokens: int = 1
    """Labels that are not characters."""


@dataclass(frozen=True)
class Skipped:
    """An utterance that could not be read."""

    error: str


class Batch(NamedTuple):
    """Padded utterances in host memory. `to` moves them to a device and keeps the lengths on the host."""

    inputs: Tensor
    """(B, T) float32 audio, or (B, F, ...) features, zero after the end of each utterance."""
    lengths: Tensor
    """(B,) int64, samples or frames per utterance."""
    targets: Tensor
    """(B, S) int64 labels, zero after the end of each utterance; S is 0 without a vocabulary."""
    num_labels: Tensor
    """(B,) int64, labels per utterance."""
    groups: Tensor
    """(B,) int64, group number of each utterance; or (B, G) float32, shares of groups."""
    indices: Tensor
    """(B,) int64, position of each utterance in the manifest."""
    num_characters: Tensor
    """(B,) int64, labels per utterance, without language tokens."""
    skipped: list[str]
    """The error of each utterance that was skipped."""

    @property
    def num_utterances(self) -> int:
        """Zero if all were skipped. With several ranks, still call `objective(torch.zeros(0), batch.groups)`."""
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """Copies inputs, targets and groups to a device.

        Lengths and indices stay on the host: models read them, and reading from a GPU waits for all pending work.
        """
        inputs, targets, groups = (
            tensor.to(device, non_blocking=True) for tensor in (self.inputs, self.targets, self.groups)
        )
        return self._replace(inputs=inputs, targets=targets, groups=groups)

    def __reduce__(self) -> tuple[Any, ...]:
        # A tensor sent from a worker costs shared memory, a file descriptor and a third of a millisecond. Only the
        # inputs are large enough to be worth it; the rest is sent as arrays.
        inputs, *small, skipped = self
        return _unpickle, (inputs, [tensor.numpy() if tensor.is_cpu else tensor for tensor in small], skipped)


def _unpickle(inputs: Tensor, small: list[Any], skipped: list[str]) -> Batch:
    return Batch._make([inputs, *map(torch.as_tensor, small), skipped])


def collate(utterances: Sequence[LoadedUtterance | Skipped]) -> Batch:
    """Pads utterances into one batch, in the given order. Those that could not be read are in `Batch.skipped`."""
    read = [utterance for utterance in utterances if isinstance(utterance, LoadedUtterance)]
    lengths = [len(utterance.inputs) for utterance in read]
    num_labels = [len(utterance.labels) for utterance in read]
    # Allocated by numpy: torch would use all its threads to write zeros, which is slow on busy cores.
    shape = read[0].inputs.shape[1:] if read else ()
    inputs = np.zeros((len(read), max(lengths, default=0), *shape), dtype=np.float32)
    targets = np.zeros((len(read), max(num_labels, default=0)), dtype=np.int64)
    for row, utterance in enumerate(read):
        inputs[row, : len(utterance.inputs)] = utterance.inputs
        targets[row, : len(utterance.labels)] = utterance.labels
    return Batch(
        torch.from_numpy(inputs),
        torch.tensor(lengths, dtype=torch.int64),
        torch.from_numpy(targets),
        torch.tensor(num_labels, dtype=torch.int64),
        torch.from_numpy(np.array([utterance.group for utterance in read])) if read else torch.zeros(0).long(),
        torch.tensor([utterance.index for utterance in read], dtype=torch.int64),
        torch.tensor([max(0, len(one.labels) - one.num_language_tokens) for one in read], dtype=torch.int64),
        [utterance.error for utterance in utterances if isinstance(utterance, Skipped)],
    )
