"""`load_batches`: padded batches of a dataset, read by worker processes.

    sampler = LengthMatchedBatchSampler(manifest.durations, manifest.groups().numbers, batch_duration=50)
    for batch in load_batches(SpeechDataset(manifest, vocabulary), sampler, num_workers=2):
        log_probs, num_frames = model(batch.inputs, batch.lengths)
        loss = criterion(log_probs, batch.targets, num_frames, batch.num_labels, batch.groups)  # CTCDROLoss

Guarantees: batches follow the order of the sampler, and hold the same numbers with any number of workers. Loading
leaves torch's global generator unchanged. A file that cannot be read stops the loop with an
`AudioError` that begins with the manifest line and the file name, or is skipped and reported in `Batch.skipped`.
"""

from __future__ import annotations

import multiprocessing
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
from .dataset import UtteranceDataset


class _BatchLoader(DataLoader[LoadedUtterance | Skipped]):
    """A `DataLoader` that stops its workers immediately if an error stops the loop."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        batches = super().__iter__()
        try:
            yield from batches
            return
        except (AudioError, ConnectionError, EOFError) as error:
            # The error and the frames that raised it refer to each other. Until the garbage collector breaks this
            # cycle, workers would keep running, and the program would then wait seconds for each of them.
            traceback.clear_frames(error.__traceback__)
            fault = AudioError(str(error)) if isinstance(error, AudioError) else ChildProcessError(WORKER_GONE)
        del batches
        raise fault


def load_batches(
    dataset: UtteranceDataset, batch_sampler: Iterable[list[int]], num_workers: int = 0, *, pin_memory: bool = False
) -> DataLoader[LoadedUtterance | Skipped]:
    """A `DataLoader` that returns a `Batch` for each list of utterances.

    Each worker reads two batches ahead; a batch of 50 s takes 3.2 MB. The sampler is therefore ahead of the loop: pass
    the number of batches that the loop has processed to its `state_dict`. Workers end with the iteration, even if the
    loop stops early.

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
        # Every iterator draws a seed for its workers. Drawing it from the global generator would change the random
        # numbers of training whenever an iterator is created, such as in the middle of an epoch when a run resumes.
        generator=torch.Generator(),
        worker_init_fn=_ignore_signals_of_others,
    )


def _ignore_signals_of_others(worker: int) -> None:
    """Makes a worker ignore stop signals that are sent to all processes, for example by `timeout` or a cluster.

    The loop may need batches to finish a step. SIGTERM from the process of the loop still ends the worker.
    """
    loop = multiprocessing.parent_process()  # not `os.getppid()`, which may be a fork server
    if loop is None or not hasattr(signal, "sigwaitinfo"):  # macOS
        return
    stops = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)

    def wait() -> None:
        while True:
            received = signal.sigwaitinfo(stops)
            if received.si_signo == signal.SIGTERM and received.si_pid == loop.pid:
                os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
