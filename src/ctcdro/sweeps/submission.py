"""One task as one job, through submitit.

submitit passes a task to its job as a pickle in the folder of logs; only that job reads it.
"""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..runtime.extras import extra
from ..storage.locks import lock_folder

if TYPE_CHECKING:
    from submitit import Job

    from .jobs import JobOptions, Task

ERROR_FILE = "error.txt"  # the message of a task that failed
UNLIMITED_MINUTES = 30 * 24 * 60  # submitit requires a limit
USER_ERRORS = (ValueError, ImportError, OSError, FloatingPointError)  # commands print these without their type


def submit(task: Task, logs: Path, options: JobOptions, num_threads: int, device: str | None) -> Job[None]:
    """Submits a task.

    Raises:
        ImportError: without submitit.
        ValueError: if Slurm is missing or rejects the job.
    """
    with extra("sweep", "A sweep"):
        import submitit
    logging.getLogger("submitit").setLevel(logging.ERROR)
    folder = logs.absolute() / task.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ERROR_FILE).unlink(missing_ok=True)
    is_slurm = options.cluster == "slurm"
    try:
        executor = submitit.AutoExecutor(folder, cluster=options.cluster, slurm_max_num_timeout=1000)
    except RuntimeError as error:
        raise ValueError(f"Cannot submit {task.name} to Slurm: {error}") from error
    executor.update_parameters(
        name=task.name,
        timeout_min=options.minutes if is_slurm else UNLIMITED_MINUTES,
        cpus_per_task=num_threads,
        gpus_per_node=1 if options.gpu and is_slurm else None,
        slurm_partition=options.partition,
        slurm_additional_parameters=dict(options.sbatch) or None,
    )
    # Jobs must not receive signals of the terminal: submitit would turn Ctrl-C into a SIGKILL for them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        return executor.submit(JobProcess(task, str(folder), num_threads, device))
    except RuntimeError as error:  # from sbatch
        raise ValueError(f"Cannot submit {task.name}: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class JobProcess:
    """What runs in the process of a job: the task, with its threads and device, under its lock."""

    task: Task
    folder: str
    """Folder of the logs and the lock of the task."""
    num_threads: int
    device: str | None

    def __call__(self) -> None:
        requeue = signal.getsignal(signal.SIGUSR2)  # submitit's handler; it also ends the process
        is_preempted = False

        def preempt(*_: Any) -> None:
            nonlocal is_preempted
            is_preempted = True
            signal.raise_signal(signal.SIGTERM)  # training first writes a checkpoint

        signal.signal(signal.SIGUSR2, preempt)
        signal.signal(signal.SIGTERM, interrupt)
        try:
            if self.device is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = self.device
            os.environ["OMP_NUM_THREADS"] = str(self.num_threads)  # torch reads it when it is imported
            with lock_folder(self.folder, wait=True):  # a job may have outlived the command that started it
                if not self.task.is_done():
                    self.task()
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent again
            if is_preempted and callable(requeue):
                requeue(signal.SIGUSR2, None)
            raise SystemExit(f"{self.task.name}: stopped") from None
        except Exception as error:
            message = str(error) if isinstance(error, USER_ERRORS) else f"{type(error).__name__}: {error}"
            Path(self.folder, ERROR_FILE).write_text(message, encoding="utf-8")
            raise

    def checkpoint(self) -> Any:
        """What submitit queues again: the same job, which resumes."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def interrupt(number: int, frame: Any) -> NoReturn:
    """A signal handler that does what Ctrl-C does."""
    raise KeyboardInterrupt
