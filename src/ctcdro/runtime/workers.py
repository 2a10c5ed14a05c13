"""Processes that are gone: what it means when torch speaks of them, from the depths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

WORKER_GONE = (
    "A worker that reads audio has ended; was it killed, for want of memory? What was written is sound: start again, "
    "with fewer workers (batches.num_workers, --num-workers) if memory is short."
)

RANK_GONE = (
    "Another process of this run has ended or cannot be reached; see what it has told. The last checkpoint is sound: "
    "start all processes again, and the run goes on."
)


@contextmanager
def explain_dead_processes() -> Iterator[None]:
    """Says in words that another process is gone.

    torch tells of a worker by an error out of a signal's handler, so that it may come from any line of the program, and
    once more while the first is on its way; hence this stands around everything, and not only around loaders.

    Raises:
        ChildProcessError: for a worker of a `DataLoader`.
        ConnectionError: for another process of a distributed run.

    Example:
        >>> with explain_dead_processes():
        ...     raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")
        Traceback (most recent call last):
        ChildProcessError: A worker that reads audio has ended; ... (DataLoader worker (pid 7) is killed ...)
    """
    try:
        yield
    except RuntimeError as error:
        from torch.distributed import DistError

        told = str(error)
        if "DataLoader worker" in told:
            raise ChildProcessError(f"{WORKER_GONE} ({told.splitlines()[0]})") from error
        if isinstance(error, DistError) or "by peer" in told or "Timed out waiting" in told:
            raise ConnectionError(f"{RANK_GONE} ({told.splitlines()[0]})") from error
        raise
