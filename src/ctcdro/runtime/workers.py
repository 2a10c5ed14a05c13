"""Clear errors where torch reports a dead process in obscure ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

WORKER_GONE = (
    "A process that reads audio has died; the system may have killed it to free memory. Files that were written are "
    "intact. Run the same command again, with fewer workers (data.num_workers, --workers) if memory is short."
)

RANK_GONE = (
    "Another process of this run has died or cannot be reached; see its output. The last checkpoint is intact. Start "
    "all processes again to resume."
)


@contextmanager
def explain_dead_processes() -> Iterator[None]:
    """Turns torch's errors about dead processes into clear ones.

    torch reports a dead worker from a signal handler, so the error can come from any line of the program, also while
    another error is handled. Wrap the whole program, not only the loader.
    """
    try:
        yield
    except RuntimeError as error:
        from torch.distributed import DistError

        message = str(error)
        if "DataLoader worker" in message:
            raise ChildProcessError(f"{WORKER_GONE} ({message.splitlines()[0]})") from error
        if isinstance(error, DistError) or "by peer" in message or "Timed out waiting" in message:
            raise ConnectionError(f"{RANK_GONE} ({message.splitlines()[0]})") from error
        raise
