"""Runs tasks as jobs in separate processes, on this machine or on a Slurm cluster.

Guarantees: a task that is done is not started again, and two processes never run the same task, even if two commands
started them. A failed task does not affect the others. Ctrl-C, SIGTERM and SIGHUP stop all jobs with SIGTERM, and
`launch` waits for them. A preempted job is requeued. The task, not its job, decides whether it is done.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..storage.paths import PathLike
from .job_process import ERROR_FILE, Task
from .slurm import SlurmQueue, wait_for_shared_files
from .submission import JobOptions, submit

if TYPE_CHECKING:
    from submitit import Job

POLL_SECONDS = 0.3
MAX_MESSAGE_LINES = 6


@dataclass(frozen=True)
class Failure:
    """A task whose job ended before the task was done."""

    name: str
    log: Path
    last_lines: list[str]
    """The error message, or the last lines of the log."""


@dataclass
class LaunchState:
    phase: str
    """What the tasks do, such as "Training"."""
    waiting: list[Task]
    running: list[Task] = field(default_factory=list)
    done: list[Task] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    is_stopping: bool = False

    @property
    def num_tasks(self) -> int:
        return len(self.waiting) + len(self.running) + len(self.done) + len(self.failures)


JobCallback = Callable[[LaunchState], None]


@dataclass
class _RunningJob:
    task: Task
    job: Job[None]
    device: str | None


def launch(
    tasks: Sequence[Task],
    logs: PathLike,
    options: JobOptions | None = None,
    callback: JobCallback = lambda state: None,
    phase: str = "Running",
) -> list[Failure]:
    """Runs all tasks that are not done yet, in order, and returns the failures. Call it again to retry them.

    Args:
        logs: folder for logs; on a cluster, a folder that all machines share.
        callback: called with the state several times per second.
        phase: what the tasks do, for the callback.

    Raises:
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP, when all jobs have ended.
        ValueError: if Slurm is missing or rejects a job; jobs that had started are stopped.
    """
    options = options or JobOptions()
    state = LaunchState(phase, waiting=[task for task in tasks if not task.is_done()])
    state.done = [task for task in tasks if task not in state.waiting]
    num_jobs, num_threads = options.resolve(len(tasks))
    free_devices = _devices(options, num_jobs) if state.waiting else []
    queue = SlurmQueue() if options.cluster == "slurm" else None
    running: list[_RunningJob] = []
    with _stop_signals_interrupt():
        try:
            while state.waiting or running:
                while state.waiting and free_devices:
                    task, device = state.waiting.pop(0), free_devices.pop()
                    running.append(_RunningJob(task, submit(task, Path(logs), options, num_threads, device), device))
                state.running = [item.task for item in running]
                callback(state)
                time.sleep(POLL_SECONDS)
                for item in _ended(running, queue):
                    running.remove(item)
                    free_devices.append(item.device)
                    if item.task.is_done():
                        state.done.append(item.task)
                    else:
                        state.failures.append(_failure(item))
        except BaseException:
            state.is_stopping = True
            callback(state)
            _stop([item.job for item in running], options)
            raise
    state.running = []
    callback(state)
    return state.failures


def _ended(running: Sequence[_RunningJob], queue: SlurmQueue | None) -> list[_RunningJob]:
    lost = queue.lost([item.job.job_id for item in running]) if queue else set()
    # The first process of a job is the last to end, unless the job fails.
    ended = [item for item in running if item.job.task(0).done() or item.job.job_id in lost]
    for item in ended if queue else []:
        wait_for_shared_files(item.task.is_done)
    return ended


def _failure(item: _RunningJob) -> Failure:
    message, log = item.job.paths.folder / ERROR_FILE, item.job.paths.stderr
    path = message if message.exists() else log
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    lines = [line for line in lines if line.strip()][-MAX_MESSAGE_LINES:]
    return Failure(item.task.name, log, lines or ["The job ended without a message. Was it killed or canceled?"])


def _stop(jobs: Sequence[Job[None]], options: JobOptions) -> None:
    if options.cluster == "slurm":
        for job in jobs:
            job.cancel(check=False)
        return
    while remaining := [job for job in jobs if not job.done()]:  # repeated for jobs that are still starting
        for job in remaining:
            os.kill(int(job.job_id), signal.SIGTERM)
        time.sleep(POLL_SECONDS)


@contextmanager
def _stop_signals_interrupt() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP act like Ctrl-C, so that no job keeps running."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _devices(options: JobOptions, num_jobs: int) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES of each job: a GPU per process, or empty if it has none; None if Slurm assigns them."""
    if options.cluster == "slurm" and not options.cpu:
        return [None] * num_jobs
    gpus, size = options.local_gpus(), options.processes_per_node
    shares = [",".join(gpus[start : start + size]) for start in range(0, len(gpus) - size + 1, size)] or [""]
    return [shares[number % len(shares)] for number in range(num_jobs)]
