"""Tasks as jobs in processes of their own, on this machine or on a Slurm cluster; one way for both, through submitit.

    failures = launch(tasks, "logs", Place(num_jobs=2))

What one can rely on: a task that is done is not begun again, and no two processes work on the same one, whoever started
them. One that fails hinders no other. Ctrl-C, SIGTERM and SIGHUP reach all jobs as SIGTERM, and are waited for; a job
that a cluster takes away is queued again. The task itself, not the job, reports whether it is done. A Slurm job
that leaves the queue without a result, for example after `scancel`, has failed.

submitit hands a task over as a pickle in the folder of logs, which is read once, by the job it was written for.
"""

from __future__ import annotations

import builtins
import logging
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol

from ..runtime.extras import extra
from ..storage.locks import lock_folder
from ..storage.paths import PathLike

if TYPE_CHECKING:
    from submitit import Job

POLL_EVERY = 0.3  # seconds
SHARED_FILES_WITHIN = 15.0  # seconds, after which other machines have surely seen a file
ASK_QUEUE_EVERY = 20.0  # seconds, so that many sweeps do not overload Slurm
GONE_AFTER = 60.0  # seconds after which a job that left the queue without a result counts as failed
LINES_SHOWN = 6
FOREVER = 30 * 24 * 60  # minutes
EXPECTED = (ValueError, ImportError, OSError, FloatingPointError)  # what commands report as a message


class Progress(NamedTuple):
    """How far a task is."""

    part: float
    """From 0 to 1."""
    words: str


class Task(Protocol):
    """Work that can be pickled, that tells whether it is done, and that may be begun again after it broke off."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> None: ...
    def is_done(self) -> bool: ...
    def progress(self) -> Progress: ...


@dataclass(frozen=True)
class Place:
    """Where jobs run, how many at a time, and what each of them gets."""

    cluster: Literal["local", "slurm"] = "local"
    num_jobs: int | None = None
    """At a time; by default one for each core (or GPU), and on a cluster all."""
    num_threads: int | None = None
    """Of a job; by default its share of the cores, and on a cluster 4. Bits of results depend on it."""
    gpu: bool = False
    """A GPU for each job; otherwise jobs see none."""
    minutes: int = 24 * 60
    """After which a cluster ends a job; it is then queued again, and goes on."""
    partition: str | None = None
    sbatch: Mapping[str, str] = field(default_factory=dict)
    """Further options of sbatch, as {"account": "speech"}."""

    def resolved(self, num_tasks: int) -> tuple[int, int]:
        """Jobs at a time, and threads of each.

        Example:
            >>> Place("slurm").resolved(num_tasks=9), Place(num_jobs=1, num_threads=2).resolved(num_tasks=9)
            ((9, 4), (1, 2))
        """
        if self.cluster == "slurm":
            return self.num_jobs or max(1, num_tasks), self.num_threads or 4
        num_cores = _num_cores()
        num_jobs = self.num_jobs or (len(_gpus()) if self.gpu else num_cores) or 1
        return num_jobs, self.num_threads or max(1, num_cores // num_jobs)


@dataclass(frozen=True)
class Failure:
    """A task whose job ended before it was done."""

    name: str
    log: Path
    last_lines: list[str]
    """The last lines of the log: the error message, without its traceback."""


@dataclass
class State:
    """How far a launch is."""

    waiting: list[Task]
    running: list[Task] = field(default_factory=list)
    done: list[Task] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    is_stopping: bool = False


class Watch(Protocol):
    """Is told of the state, again and again; what it does about it is its own affair."""

    def __call__(self, state: State) -> None: ...


def launch(
    tasks: Sequence[Task], logs: PathLike, place: Place | None = None, watch: Watch = lambda state: None
) -> list[Failure]:
    """Does all tasks that are not done yet, some at a time, in their order.

    Args:
        tasks: with different names.
        logs: a folder; on a cluster one that all machines see.
        place: where; by default this machine.
        watch: is told how far it is.

    Returns:
        What failed; the same call tries it again.

    Raises:
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP, when all jobs have ended.
        ImportError: without submitit.
        ValueError: if there is no GPU for jobs that want one, if Slurm is not there, or takes no job like these; jobs
            that had begun are stopped.
    """
    place = place or Place()
    state = State(waiting=[task for task in tasks if not task.is_done()])
    state.done = [task for task in tasks if task not in state.waiting]
    if not state.waiting:
        watch(state)
        return []
    num_jobs, num_threads = place.resolved(len(tasks))
    devices: list[str | None] = [None] * num_jobs
    if place.gpu and place.cluster == "local":
        gpus = _gpus()
        if not gpus or not _sees_a_gpu():
            raise ValueError("--gpu: this machine has none that torch sees.")
        devices = [gpus[number % len(gpus)] for number in range(num_jobs)]
    running: dict[str, tuple[Task, Job[None], str | None]] = {}
    queue = _SlurmQueue() if place.cluster == "slurm" else None
    with _stops_as_interrupts():
        try:
            while state.waiting or running:
                while state.waiting and len(running) < num_jobs:
                    task = state.waiting.pop(0)
                    device = devices.pop()
                    running[task.name] = (task, _submit(task, Path(logs), place, num_threads, device), device)
                state.running = [task for task, *_ in running.values()]
                watch(state)
                time.sleep(POLL_EVERY)
                gone = queue.gone([job.job_id for _, job, _ in running.values()]) if queue else set()
                for name, (task, job, device) in list(running.items()):
                    if job.done() or job.job_id in gone:
                        del running[name]
                        devices.append(device)
                        if _has_done(task, place):
                            state.done.append(task)
                        else:
                            state.failures.append(_failure(task, job))
        except BaseException:
            state.is_stopping = True
            watch(state)
            _stop([job for _, job, _ in running.values()], place)
            raise
    state.running = []
    watch(state)
    return state.failures


@dataclass(frozen=True)
class _Work:
    """What is done in the process of a job."""

    task: Task
    folder: str
    """Its logs, and the lock of the task."""
    num_threads: int
    device: str | None

    def __call__(self) -> None:
        queue_again = signal.getsignal(signal.SIGUSR2)  # submitit's; it ends the process, too
        is_taken_away: list[bool] = []

        def take_away(*_: Any) -> None:
            is_taken_away.append(True)
            signal.raise_signal(signal.SIGTERM)  # training has a checkpoint written first

        signal.signal(signal.SIGUSR2, take_away)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            if self.device is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = self.device
            os.environ["OMP_NUM_THREADS"] = str(self.num_threads)  # torch reads it when it is imported
            with lock_folder(self.folder, wait=True):  # a job may have outlived the command that started it
                if not self.task.is_done():
                    self.task()
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come again
            if is_taken_away and callable(queue_again):
                queue_again(signal.SIGUSR2, None)
            raise SystemExit(f"{self.task.name}: stopped") from None

    def checkpoint(self) -> Any:
        """What submitit queues again: the same, which goes on where it was."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _submit(task: Task, logs: Path, place: Place, num_threads: int, device: str | None) -> Job[None]:
    with extra("sweep", "A sweep"):
        import submitit
    logging.getLogger("submitit").setLevel(logging.ERROR)
    folder = logs.absolute() / task.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        executor = submitit.AutoExecutor(folder, cluster=place.cluster, slurm_max_num_timeout=1000)
    except RuntimeError as error:
        raise ValueError(f"{task.name} cannot be a job of Slurm here: {error}") from error
    executor.update_parameters(
        name=task.name,
        timeout_min=place.minutes if place.cluster == "slurm" else FOREVER,
        cpus_per_task=num_threads,
        gpus_per_node=1 if place.gpu and place.cluster == "slurm" else None,
        slurm_partition=place.partition,
        slurm_additional_parameters=dict(place.sbatch) or None,
    )
    # Jobs do not hear the terminal: of its Ctrl-C submitit's own process would make a SIGKILL for them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        return executor.submit(_Work(task, str(folder), num_threads, device))
    except RuntimeError as error:  # of sbatch
        raise ValueError(f"{task.name} could not be submitted: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _has_done(task: Task, place: Place) -> bool:
    """Whether a job that has ended has done its task; files of other machines may be late."""
    deadline = time.monotonic() + (SHARED_FILES_WITHIN if place.cluster == "slurm" else 0.0)
    while not task.is_done() and time.monotonic() < deadline:
        time.sleep(1.0)
    return task.is_done()


class _SlurmQueue:
    """Finds jobs that ended without a result, such as canceled ones: without accounting, Slurm reports them nowhere."""

    def __init__(self) -> None:
        self._asked = -math.inf
        self._missing_since: dict[str, float] = {}

    def gone(self, ids: Sequence[str]) -> set[str]:
        """Jobs that were absent from every answer of Slurm in the last `GONE_AFTER` seconds."""
        now = time.monotonic()
        if now - self._asked < ASK_QUEUE_EVERY:
            return set()
        self._asked = now
        queued = _queued()
        if queued is None:
            return set()
        self._missing_since = {one: self._missing_since.get(one, now) for one in ids if one not in queued}
        return {one for one, since in self._missing_since.items() if now - since >= GONE_AFTER}


def _queued() -> set[str] | None:
    """The jobs of this user that wait or run; None if Slurm does not answer."""
    command = ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return set(done.stdout.split())


def _failure(task: Task, job: Job[None]) -> Failure:
    log = job.paths.stderr
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    message = _message([line for line in lines if line.strip()])
    return Failure(task.name, log, message or ["It ended without a message: was it killed or canceled?"])


def _message(lines: Sequence[str]) -> list[str]:
    """The last lines of a log; after a traceback, only the error message.

    Example:
        >>> _message(["Traceback (most recent call last):", '  File "a.py", line 1', "    open('b')", "OSError: no b"])
        ['no b']
    """
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    if not frames:
        return list(lines[-LINES_SHOWN:])
    message = list(dropwhile(lambda line: line.startswith("    "), lines[frames[-1] + 1 :]))
    kind, sign, first = (message or [""])[0].partition(": ")
    if sign and (kind.startswith("ctcdro.") or issubclass(getattr(builtins, kind, object), EXPECTED)):
        message[0] = first  # other errors keep their type, which explains more than the message
    return message[-LINES_SHOWN:]


def _stop(jobs: Sequence[Job[None]], place: Place) -> None:
    if place.cluster == "slurm":
        for job in jobs:
            job.cancel(check=False)
        return
    # More than once, for those that are just being started.
    while left := [job for job in jobs if not job.done()]:
        for job in left:
            os.kill(int(job.job_id), signal.SIGTERM)
        time.sleep(POLL_EVERY)


@contextmanager
def _stops_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP do what Ctrl-C does, so that no job is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> list[str]:
    """Those that this process sees, by number or name."""
    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named.split(",")
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _sees_a_gpu() -> bool:
    """Those named in the environment need not be there, and training would be content with the CPU."""
    import torch

    return torch.cuda.is_available()
