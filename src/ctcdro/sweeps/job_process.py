"""A process of a job: runs a task, and ends in order if the job fails, is stopped or is preempted."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..storage.locks import lock_folder

ERROR_FILE = "error.txt"  # error message of a failed task
USER_ERRORS = (ValueError, ImportError, OSError, FloatingPointError)  # commands print these without their type


class Task(Protocol):
    """A picklable unit of work that knows whether it is done, and resumes when it is called again."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> None:
        """Does the work. All processes of a job call it."""

    def is_done(self) -> bool: ...
    def progress(self) -> tuple[float, str]:
        """The completed fraction, and a description; the result once it is done."""


@dataclass(frozen=True)
class JobProcess:
    """A process of a job: runs the task with its threads and device, while it holds its lock in the log folder.

    If the job is preempted, only the first process acts on the signal. Training stops all processes after the same
    step, the first one requeues the job, and the others end successfully: Slurm ends a job in which a process fails.
    """

    task: Task
    folder: str
    num_threads: int
    device: str | None
    num_processes: int = 1

    def __call__(self) -> None:
        rank = _announce_rank() if self.num_processes > 1 else 0
        requeue = signal.getsignal(signal.SIGUSR2)  # submitit's handler; it also ends the process
        is_preempted = False

        def preempt(*_: Any) -> None:
            nonlocal is_preempted
            is_preempted = True
            signal.raise_signal(signal.SIGTERM)  # training first writes a checkpoint

        signal.signal(signal.SIGUSR2, signal.SIG_IGN if rank else preempt)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
        try:
            self._run(rank)
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent twice
            if is_preempted and callable(requeue):
                requeue(signal.SIGUSR2, None)
            print(f"{self.task.name}: stopped", file=sys.stderr)
            raise SystemExit(0 if rank else 1) from None
        except Exception as error:
            message = str(error) if isinstance(error, USER_ERRORS) else f"{type(error).__name__}: {error}"
            # The first error is the cause; the other processes fail because they lose this one.
            with suppress(FileExistsError), open(Path(self.folder, ERROR_FILE), "x", encoding="utf-8") as file:
                file.write(message)
            raise

    def _run(self, rank: int) -> None:
        if self.device is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.device
        os.environ["OMP_NUM_THREADS"] = str(self.num_threads)  # torch reads it when it is imported
        # A job may have outlived the command that started it. Each process waits for its predecessor.
        with lock_folder(Path(self.folder, "processes", str(rank)) if rank else self.folder, wait=True):
            if not self.task.is_done():
                self.task()

    def checkpoint(self) -> Any:
        """Returns the job that submitit requeues: the same job, which resumes."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _announce_rank() -> int:
    """Sets the variables of `torch.distributed` as torchrun does, from those of the job. Returns the rank."""
    from submitit import JobEnvironment
    from submitit.helpers import TorchDistributedEnvironment

    ranks = TorchDistributedEnvironment()
    if JobEnvironment().num_nodes == 1:
        ranks.master_addr = "127.0.0.1"  # the name of a machine need not be resolvable
    ranks.export(set_cuda_visible_devices=False, overwrite=True)
    return ranks.rank
