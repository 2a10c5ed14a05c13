"""Batches of utterance numbers in two arrays, and how close their durations are to a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Seconds: TypeAlias = float
Durations: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PackedBatches:
    """Batches of utterance numbers, concatenated in one array: millions of lists would exhaust the memory."""

    indices: Indices
    offsets: Indices
    """Batch number b is `indices[offsets[b] : offsets[b + 1]]`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> list[int]:
        return self.indices[self.offsets[number] : self.offsets[number + 1]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return (self[number] for number in range(len(self)))

    @property
    def sizes(self) -> Indices:
        return np.diff(self.offsets)

    def take(self, order: Indices) -> PackedBatches:
        sizes = self.sizes[order]
        offsets = running_total(sizes)
        source = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], sizes)
        return PackedBatches(self.indices[source], offsets)

    @staticmethod
    def join(parts: Sequence[PackedBatches]) -> PackedBatches:
        return PackedBatches(
            np.concatenate([part.indices for part in parts]),
            running_total(np.concatenate([part.sizes for part in parts])),
        )

    def totals(self, durations: Durations) -> Durations:
        """(number of batches,) seconds of speech per batch."""
        return np.add.reduceat(durations[self.indices], self.offsets[:-1])


@dataclass(frozen=True)
class Matching:
    """How close the durations of batches are to their target."""

    num_batches: int
    share_within: float
    """Fraction of batches whose total is within 2% of the target."""
    total_std: Seconds
    padding: float
    """Seconds including padding divided by seconds of speech, over all batches."""

    @classmethod
    def of(cls, batches: PackedBatches, durations: Durations, batch_duration: Seconds) -> Matching:
        totals = batches.totals(durations)
        longest = np.maximum.reduceat(durations[batches.indices], batches.offsets[:-1])
        return cls(
            num_batches=len(batches),
            share_within=float(np.mean(np.abs(totals - batch_duration) <= 0.02 * batch_duration)),
            total_std=float(totals.std()),
            padding=float((longest * batches.sizes).sum() / totals.sum()),
        )


def running_total(values: npt.ArrayLike) -> npt.NDArray:
    return np.concatenate([[0], np.cumsum(values)])


def mean_distance(totals: Durations, batch_duration: Seconds) -> Seconds:
    return float(np.abs(totals - batch_duration).mean())
