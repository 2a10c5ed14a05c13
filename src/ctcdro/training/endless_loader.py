"""An endless stream of batches: one epoch of a sampler after another, from any position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..sampling.base import PlannedBatchSampler
from ..speech.batch import Batch
from ..speech.dataset import UtteranceDataset
from ..speech.loader import load_batches


class BatchStream:
    """An endless iterator over batches.

    The state counts the batches that the loop has received, not those that workers have read ahead, so that a resumed
    run continues with the next one. Workers stop when the stream is no longer referenced.
    """

    def __init__(
        self, dataset: UtteranceDataset, sampler: PlannedBatchSampler, num_workers: int, *, pin_memory: bool = False
    ) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._num_workers = num_workers
        self._pin_memory = pin_memory
        # Not a generator: its frame would refer to the stream, and this cycle would keep workers alive at exit.
        self._loader: Iterator[Batch] | None = None
        self._num_taken = 0

    def __next__(self) -> Batch:
        while True:
            if self._loader is None:
                self._dataset.set_epoch(self._sampler.epoch)
                self._loader = iter(
                    load_batches(self._dataset, self._sampler, self._num_workers, pin_memory=self._pin_memory)
                )
                self._num_taken = 0
            batch = next(self._loader, None)
            if batch is not None:
                self._num_taken += 1
                return batch
            self._loader = None
            self._sampler.set_epoch(self._sampler.epoch + 1)

    def __len__(self) -> int:
        return len(self._sampler)

    def state_dict(self) -> dict[str, Any]:
        return self._sampler.state_dict(self._num_taken)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loader = None
        self._num_taken = 0
        self._sampler.load_state_dict(state)
