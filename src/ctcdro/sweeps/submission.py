"""Submits a task as a job of one or several processes, on this machine or on Slurm, with submitit.

submitit passes a task to its job as a pickle in the log folder; only that job reads it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..runtime.extras import extra
from .job_process import ERROR_FILE, JobProcess, Task

if TYPE_CHECKING:
    from submitit import Job

UNLIMITED_MINUTES = 30 * 24 * 60  # submitit requires a limit


@dataclass(frozen=True)
class JobOptions:
    """Where jobs run, how many at a time, and with which resources."""

    cluster: Literal["local", "slurm"] = "local"
    num_jobs: int | None = None
    """Number of parallel jobs; by default as many as GPUs allow, or cores without GPUs, and all on a cluster."""
    num_threads: int | None = None
    """CPU threads per process; by default an equal share of the cores, and 4 on a cluster. Changes the last bits of
    results."""
    cpu: bool = False
    """Whether to hide all GPUs from jobs. By default each process uses one GPU, if there are any; on a cluster it
    requests one."""
    processes_per_node: int = 1
    """Processes per job on each of its nodes."""
    num_nodes: int = 1
    """Nodes per job; more than one only on a cluster."""
    minutes: int = 24 * 60
    """Time limit of a Slurm job, after which it is requeued and resumes."""
    partition: str | None = None
    sbatch: Mapping[str, str] = field(default_factory=dict)
    """Further options of sbatch, such as {"account": "speech"}."""

    @property
    def num_processes(self) -> int:
        """Processes per job."""
        return self.processes_per_node * self.num_nodes

    def alone(self) -> JobOptions:
        """The same options with one process per job."""
        return replace(self, processes_per_node=1, num_nodes=1)

    def check(self) -> None:
        """Raises a ValueError if this machine cannot run such jobs."""
        if self.cluster == "slurm":
            return
        if self.num_nodes > 1:
            raise ValueError(f"--nodes-per-run {self.num_nodes} requires --cluster slurm.")
        if self.processes_per_node > 1 and not self.cpu and len(self.local_gpus()) < self.processes_per_node:
            raise ValueError(
                f"--gpus-per-run {self.processes_per_node}: PyTorch finds {len(self.local_gpus())} GPUs on this "
                "machine. Lower it, or pass --cpu for as many processes on the CPU."
            )

    def resolve(self, num_tasks: int) -> tuple[int, int]:
        """The number of parallel jobs, and of threads per process."""
        if self.cluster == "slurm":
            return self.num_jobs or max(1, num_tasks), self.num_threads or 4
        num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        num_places = len(self.local_gpus()) or num_cores
        num_jobs = self.num_jobs or max(1, num_places // self.processes_per_node)
        return num_jobs, self.num_threads or max(1, num_cores // (num_jobs * self.processes_per_node))

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
            nodes=options.num_nodes,
            tasks_per_node=options.processes_per_node,
            cpus_per_task=num_threads,
            gpus_per_node=options.processes_per_node if is_slurm and not options.cpu else None,
            slurm_partition=options.partition,
            slurm_srun_args=_srun_options(num_threads),
            slurm_additional_parameters=dict(options.sbatch) or None,
        )
        return executor.submit(JobProcess(task, str(folder), num_threads, device, options.num_processes))
    except RuntimeError as error:  # Slurm is missing, or rejects the job
        hint = " If the cluster has no GPUs, pass --cpu." if is_slurm and not options.cpu else ""
        raise ValueError(f"Cannot submit {task.name}: {error}{hint}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _srun_options(num_threads: int) -> list[str]:
    """Options of `srun`, which starts the processes of a job."""
    return [
        f"--cpus-per-task={num_threads}",  # since 22.05, srun does not take it from sbatch
        "--kill-on-bad-exit=1",  # if a process fails, the others end at once instead of waiting for it
        "--wait=0",  # the others end while the first process scores the run
    ]


def visible_gpus() -> list[str]:
    """Numbers or names of the GPUs that this process sees."""
    import torch

    num_gpus = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:num_gpus] if visible else [str(number) for number in range(num_gpus)]
