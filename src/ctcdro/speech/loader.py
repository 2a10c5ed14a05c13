"""`load_batches`: padded batches of a dataset, read by worker processes.

    sampler = LengthMatchedBatchSampler(manifest.durations, manifest.groups().numbers, batch_duration=50)
    for batch in load_batches(SpeechDataset(manifest, vocabulary), sampler, num_workers=2):
        log_probs, num_frames = model(batch.inputs, batch.lengths)
        loss = criterion(log_probs, batch.targets, num_frames, batch.num_labels, batch.groups)  # CTCDROLoss

Guarantees: batches follow the order of the sampler, and hold the same numbers with any number of workers. Loading uses
no random numbers and leaves torch's global generator unchanged. A file that cannot be read stops the loop with an
`AudioError` that begins with the manifest line and the file name, or is skipped and reported in `Batch.skipped`.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Iterable, Iterator

import torch
from torch.utils.data import DataLoader

from ..runtime.workers import WORKER_GONE
from .audio import AudioError
from .batch import Batch, LoadedUtterance, Skipped, collate
from .dataset import SpeechDataset


class _BatchLoader(DataLoader[LoadedUtterance | Skipped]):
    """A `DataLoader` whose workers end at once when an error stops the loop."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        batches = super().__iter__()
        try:
            yield from batches
            return
        except (AudioError, ConnectionError, EOFError) as error:
            # The error refers to the frames that raised it, and they to the error. Left to the garbage collector,
            # workers would live on, and at some later moment the program would wait for each of them for seconds.
            traceback.clear_frames(error.__traceback__)
            fault = AudioError(str(error)) if isinstance(error, AudioError) else ChildProcessError(WORKER_GONE)
        del batches
        raise fault


def load_batches(
    dataset: SpeechDataset, batch_sampler: Iterable[list[int]], num_workers: int = 0, *, pin_memory: bool = False
) -> DataLoader[LoadedUtterance | Skipped]:
    """A `DataLoader` that returns a `Batch` for each list of utterances.

    Each worker reads two batches ahead; a batch of 50 s takes 3.2 MB. A sampler has then produced more batches than the
    loop has seen: pass the number of batches that the loop has processed to its `state_dict`. Workers end with the
    iteration, also when the loop is left early.

    Args:
        batch_sampler: yields the indices of each batch, such as `LengthMatchedBatchSampler`.
        num_workers: processes that read audio; 0 reads in this process.
        pin_memory: whether to return tensors in pinned memory, for asynchronous copies to a GPU.
    """
    return _BatchLoader(
        dataset,
        batch_sampler=batch_sampler,
        collate_fn=collate,
        num_workers=num_workers,
        pin_memory=pin_memory,
        # Every iterator draws a seed for its workers. Drawn from the global generator, it would shift the random
        # numbers of training whenever an iterator is created: in a resumed run, in the middle of an epoch.
        generator=torch.Generator(),
        worker_init_fn=_ignore_signals_of_others,
    )


def _ignore_signals_of_others(worker: int) -> None:
    """In a worker, ignores a stop signal that is sent to all processes, for example by `timeout` or a cluster.

    The loop may have to finish a step and needs batches for it. SIGTERM from the parent ends the worker.
    """
    if not hasattr(signal, "sigwaitinfo"):  # macOS
        return
    parent, stops = os.getppid(), {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)

    def wait() -> None:
        while True:
            received = signal.sigwaitinfo(stops)
            if received.si_signo == signal.SIGTERM and received.si_pid == parent:
                os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
