"""Endless batches: one epoch of a sampler after another, from any position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..sampling.base import PlannedBatchSampler
from ..speech.batch import Batch
from ..speech.dataset import SpeechDataset
from ..speech.loader import load_batches


class BatchStream:
    """The state counts the batches that the loop has received, not those that workers have read ahead, so that a
    restart continues with the next one."""

    def __init__(self, dataset: SpeechDataset, sampler: PlannedBatchSampler, num_workers: int) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._num_workers = num_workers
        self._num_taken = 0
        self._batches = self._read()

    def _read(self) -> Iterator[Batch]:
        while True:
            self._num_taken = 0
            for batch in load_batches(self._dataset, self._sampler, self._num_workers):
                self._num_taken += 1
                yield batch
            self._sampler.set_epoch(self._sampler.epoch + 1)

    def __next__(self) -> Batch:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._sampler)

    def state_dict(self) -> dict[str, Any]:
        return self._sampler.state_dict(self._num_taken)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sampler.load_state_dict(state)
        self._batches = self._read()
