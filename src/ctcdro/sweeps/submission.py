"""Submits a task as a job on this machine or on Slurm, with submitit.

submitit passes a task to its job as a pickle in the log folder; only that job reads it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..runtime.extras import extra
from ..storage.locks import lock_folder

if TYPE_CHECKING:
    from submitit import Job

ERROR_FILE = "error.txt"  # error message of a failed task
UNLIMITED_MINUTES = 30 * 24 * 60  # submitit requires a limit
USER_ERRORS = (ValueError, ImportError, OSError, FloatingPointError)  # commands print these without their type


class Task(Protocol):
    """A picklable unit of work that knows whether it is done, and resumes when it is called again."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> None: ...
    def is_done(self) -> bool: ...
    def progress(self) -> tuple[float, str]:
        """The completed fraction, and a description; the result once it is done."""


@dataclass(frozen=True)
class JobOptions:
    """Where jobs run, how many at a time, and with which resources."""

    cluster: Literal["local", "slurm"] = "local"
    num_jobs: int | None = None
    """Number of parallel jobs; by default one per GPU, one per core without GPUs, and all on a cluster."""
    num_threads: int | None = None
    """CPU threads per job; by default an equal share of the cores, and 4 on a cluster. Changes the last bits of
    results."""
    cpu: bool = False
    """Whether to hide all GPUs from jobs. By default each job uses one GPU, if there are any; on a cluster it requests
    one."""
    minutes: int = 24 * 60
    """Time limit of a Slurm job, after which it is requeued and resumes."""
    partition: str | None = None
    sbatch: Mapping[str, str] = field(default_factory=dict)
    """Further options of sbatch, such as {"account": "speech"}."""

    def resolve(self, num_tasks: int) -> tuple[int, int]:
        """The number of parallel jobs, and of threads per job."""
        if self.cluster == "slurm":
            return self.num_jobs or max(1, num_tasks), self.num_threads or 4
        num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        num_jobs = self.num_jobs or len(self.local_gpus()) or num_cores
        return num_jobs, self.num_threads or max(1, num_cores // num_jobs)

    def local_gpus(self) -> list[str]:
        """Numbers or names of the GPUs for jobs on this machine."""
        return [] if self.cpu or self.cluster == "slurm" else visible_gpus()


def submit(task: Task, logs: Path, options: JobOptions, num_threads: int, device: str | None) -> Job[None]:
    with extra("sweep", "A sweep"):
        import submitit
    logging.getLogger("submitit").setLevel(logging.ERROR)
    folder = logs.absolute() / task.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ERROR_FILE).unlink(missing_ok=True)
    is_slurm = options.cluster == "slurm"
    # Jobs must not receive signals from the terminal: submitit would convert Ctrl-C to SIGKILL.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        executor = submitit.AutoExecutor(folder, cluster=options.cluster, slurm_max_num_timeout=1000)
        executor.update_parameters(
            name=task.name,
            timeout_min=options.minutes if is_slurm else UNLIMITED_MINUTES,
            cpus_per_task=num_threads,
            gpus_per_node=1 if is_slurm and not options.cpu else None,
            slurm_partition=options.partition,
            slurm_additional_parameters=dict(options.sbatch) or None,
        )
        return executor.submit(JobProcess(task, str(folder), num_threads, device))
    except RuntimeError as error:  # Slurm is missing, or rejects the job
        hint = " If the cluster has no GPUs, pass --cpu." if is_slurm and not options.cpu else ""
        raise ValueError(f"Cannot submit {task.name}: {error}{hint}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class JobProcess:
    """The process of a job: runs the task with its threads and device, while it holds the lock of its log folder."""

    task: Task
    folder: str
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
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
        try:
            if self.device is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = self.device
            os.environ["OMP_NUM_THREADS"] = str(self.num_threads)  # torch reads it when it is imported
            with lock_folder(self.folder, wait=True):  # a job may have outlived the command that started it
                if not self.task.is_done():
                    self.task()
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent twice
            if is_preempted and callable(requeue):
                requeue(signal.SIGUSR2, None)
            raise SystemExit(f"{self.task.name}: stopped") from None
        except Exception as error:
            message = str(error) if isinstance(error, USER_ERRORS) else f"{type(error).__name__}: {error}"
            Path(self.folder, ERROR_FILE).write_text(message, encoding="utf-8")
            raise

    def checkpoint(self) -> Any:
        """Returns the job that submitit requeues: the same job, which resumes."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def visible_gpus() -> list[str]:
    """Numbers or names of the GPUs that this process sees."""
    import torch

    num_gpus = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:num_gpus] if visible else [str(number) for number in range(num_gpus)]
