"""Jobs on this machine, in real processes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import pytest
import torch

from ctcdro.storage.locks import lock_folder
from ctcdro.sweeps import slurm as slurm_module
from ctcdro.sweeps.jobs import _devices, launch
from ctcdro.sweeps.submission import JobOptions

# Jobs cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Writes:
    """A task that writes a file that describes its process."""

    path: Path

    @property
    def name(self):
        return self.path.name

    def __call__(self):
        self.path.write_text(f"{os.environ['OMP_NUM_THREADS']} {os.environ.get('CUDA_VISIBLE_DEVICES')}")

    def is_done(self):
        return self.path.exists()

    def progress(self):
        return 0.5, "writing"


class WritesRank(Writes):
    """A task of two processes; the first is done last."""

    def __call__(self):
        Path(f"{self.path}{os.environ['RANK']}").write_text(
            " ".join(os.environ[name] for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"))
        )
        if os.environ["RANK"] == "0":
            time.sleep(0.5)
            self.path.write_text(os.environ["MASTER_PORT"])


class SecondFails(Writes):
    """A task whose second process fails, so that the first one loses it."""

    def __call__(self):
        if os.environ["RANK"] == "1":
            raise ValueError("no disk")
        while not list(self.path.parent.glob("logs/*/error.txt")):
            time.sleep(0.05)
        raise ConnectionError("another process has died")


class Fails(Writes):
    def __call__(self):
        raise ValueError("no disk\nno paper")


class Crashes(Writes):
    def __call__(self):
        raise KeyError("step")


class Dies(Writes):
    def __call__(self):
        print("out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class Waits(Writes):
    """A task that runs until it is stopped, and records that."""

    def __call__(self):
        self.path.with_suffix(".began").write_text(str(os.getpid()))
        try:
            time.sleep(600)
        finally:
            self.path.with_suffix(".stopped").touch()


def test_tasks_are_done_some_at_a_time_with_their_threads(tmp_path):
    tasks = [Writes(tmp_path / f"task{number}") for number in range(4)]
    most = []
    failures = launch(
        tasks, tmp_path / "logs", JobOptions(num_jobs=2, num_threads=3), lambda state: most.append(len(state.running))
    )
    assert failures == []
    assert [task.path.read_text() for task in tasks] == ["3 "] * 4
    assert max(most) == 2


def test_the_processes_of_a_job_know_each_other(tmp_path):
    options = JobOptions(num_jobs=1, cpu=True, processes_per_node=2)
    assert launch([WritesRank(tmp_path / "task")], tmp_path / "logs", options) == []
    assert (tmp_path / "task0").read_text() == "2 0 2 127.0.0.1"
    assert (tmp_path / "task1").read_text() == "2 1 2 127.0.0.1"
    assert int((tmp_path / "task").read_text()) > 1024


def test_of_several_processes_the_first_error_is_reported(tmp_path):
    options = JobOptions(num_jobs=1, cpu=True, processes_per_node=2)
    [failure] = launch([SecondFails(tmp_path / "task")], tmp_path / "logs", options)
    assert failure.last_lines == ["no disk"]


def test_what_is_done_is_not_begun(tmp_path):
    (tmp_path / "task").write_text("before")
    assert launch([Writes(tmp_path / "task")], tmp_path / "logs") == []
    assert (tmp_path / "task").read_text() == "before"
    assert not (tmp_path / "logs").exists()


def test_a_failure_hinders_no_other_and_has_its_last_lines(tmp_path):
    states = []
    tasks = [Fails(tmp_path / "bad"), Writes(tmp_path / "good")]
    [failure] = launch(tasks, tmp_path / "logs", JobOptions(num_jobs=1), states.append)
    assert (tmp_path / "good").exists()
    assert failure.name == "bad"
    assert failure.last_lines == ["no disk", "no paper"]
    assert "no paper" in failure.log.read_text()
    assert [task.name for task in states[-1].done] == ["good"]


def test_an_unexpected_error_has_its_type_and_a_killed_job_the_end_of_its_log(tmp_path):
    tasks = [Crashes(tmp_path / "crash"), Dies(tmp_path / "death")]
    messages = {failure.name: failure.last_lines for failure in launch(tasks, tmp_path / "logs")}
    assert messages["crash"] == ["KeyError: 'step'"]
    assert "out of memory" in messages["death"]


def test_a_retried_task_does_not_show_its_old_error(tmp_path):
    launch([Fails(tmp_path / "task")], tmp_path / "logs")
    [failure] = launch([Dies(tmp_path / "task")], tmp_path / "logs")
    assert "no disk" not in failure.last_lines


def test_an_interrupt_stops_all_jobs_and_waits_for_them(tmp_path):
    tasks = [Waits(tmp_path / "one"), Waits(tmp_path / "two"), Writes(tmp_path / "three")]

    def press_ctrl_c(state):
        if all((tmp_path / f"{name}.began").exists() for name in ("one", "two")) and not state.is_stopping:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(tasks, tmp_path / "logs", JobOptions(num_jobs=2), press_ctrl_c)
    assert (tmp_path / "one.stopped").exists()
    assert (tmp_path / "two.stopped").exists()
    assert not (tmp_path / "three").exists()
    for name in ("one", "two"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"{name}.began").read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_do_what_ctrl_c_does(tmp_path, number):
    def send(state):
        if not state.is_stopping and (tmp_path / "task.began").exists():
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        launch([Waits(tmp_path / "task")], tmp_path / "logs", callback=send)
    assert (tmp_path / "task.stopped").exists()
    assert signal.getsignal(number) is before


def test_no_two_processes_work_on_one_task(tmp_path):
    """A job waits for one that outlived its command, and finds the task done."""
    with ExitStack() as outlives:
        outlives.enter_context(lock_folder(tmp_path / "logs" / "task"))

        def finish_elsewhere(state):
            log = [path for path in (tmp_path / "logs" / "task").glob("*.out") if "Loading" in path.read_text()]
            if log and not (tmp_path / "task").exists():
                (tmp_path / "task").write_text("elsewhere")
                outlives.close()

        assert launch([Writes(tmp_path / "task")], tmp_path / "logs", callback=finish_elsewhere) == []
    assert (tmp_path / "task").read_text() == "elsewhere"


def test_a_job_that_is_taken_away_is_queued_again_when_its_task_has_stopped(tmp_path):
    program = """
import signal, sys, time
from ctcdro.sweeps.job_process import JobProcess

def queue_again(number, frame):
    print("queued again")
    sys.exit(3)

class Task:
    name = "task"
    def is_done(self):
        return False
    def __call__(self):
        try:
            signal.raise_signal(signal.SIGUSR2)
            time.sleep(600)
        finally:
            print("checkpoint")

signal.signal(signal.SIGUSR2, queue_again)
JobProcess(Task(), sys.argv[1], 1, None)()
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split("\n")) == (3, ["checkpoint", "queued again", ""]), done.stderr


def test_other_processes_of_a_job_leave_the_preemption_to_the_first(tmp_path):
    """They stop when training does, and end successfully, because Slurm would kill the first one if they failed."""
    program = """
import os, signal, sys
from ctcdro.sweeps.job_process import JobProcess

class Task:
    name = "task"
    def is_done(self):
        return False
    def __call__(self):
        os.kill(os.getpid(), signal.SIGUSR2)
        print("trains", flush=True)
        raise KeyboardInterrupt

signal.signal(signal.SIGUSR2, lambda *_: print("queued again"))
JobProcess(Task(), sys.argv[1], 1, None, num_processes=2)()
"""
    submitit = {"EXECUTOR": "local", "LOCAL_GLOBALID": "1", "LOCAL_NTASKS": "2", "LOCAL_JOB_ID": "7"}
    environment = os.environ | {f"SUBMITIT_{name}": value for name, value in submitit.items()}
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trains\n", "task: stopped\n")


def test_a_missing_slurm_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"Cannot submit task: .*srun"):
        launch([Writes(tmp_path / "task")], tmp_path / "logs", JobOptions("slurm"))


@pytest.mark.parametrize("answer", ["echo sbatch: error: invalid partition >&2; exit 1", "exit 1"])
def test_a_job_that_slurm_rejects_is_reported(tmp_path, monkeypatch, answer):
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ValueError, match="Cannot submit task: "):
        launch([Writes(tmp_path / "task")], tmp_path / "logs", JobOptions("slurm", partition="none"))


def write_program(folder, name, lines):
    (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Programs that behave like Slurm without accounting; the queue is a file with one line per job."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    write_program(folder, "srun", "exit 0")
    write_program(folder, "sacct", "echo Slurm accounting storage is disabled >&2; exit 1")
    write_program(folder, "sbatch", f"echo 7 >> {folder}/queue; echo Submitted batch job 7")
    write_program(folder, "squeue", f"echo asked >> {folder}/asked; cat {folder}/queue")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(slurm_module, "QUERY_SECONDS", 0.0)
    monkeypatch.setattr(slurm_module, "LOST_SECONDS", 0.2)
    monkeypatch.setattr(slurm_module, "SHARED_FILES_SECONDS", 0.0)
    return folder


def num_asked(slurm):
    return len((slurm / "asked").read_text().splitlines()) if (slurm / "asked").exists() else 0


def test_a_job_that_was_canceled_in_the_queue_has_failed(tmp_path, slurm):
    def cancel(state):
        if num_asked(slurm) == 3:
            (slurm / "queue").write_text("")

    [failure] = launch([Writes(tmp_path / "task")], tmp_path / "logs", JobOptions("slurm"), cancel)
    assert failure.name == "task"
    assert failure.last_lines == ["The job ended without a message. Was it killed or canceled?"]
    assert num_asked(slurm) > 3


def test_a_queue_that_does_not_answer_or_forgets_for_a_moment_says_nothing_about_jobs(tmp_path, slurm):
    queue = slurm_module.SlurmQueue()
    (slurm / "queue").write_text("7\n8\n")
    assert queue.lost(["7", "8", "9"]) == set()
    time.sleep(0.25)
    assert queue.lost(["7", "8", "9"]) == {"9"}
    (slurm / "queue").write_text("8\n")
    assert queue.lost(["7", "8"]) == set()
    (slurm / "queue").unlink()  # from here on it fails
    time.sleep(0.25)
    assert queue.lost(["7", "8"]) == set()
    (slurm / "queue").write_text("7\n")
    assert queue.lost(["7", "8"]) == set()


def test_slurm_is_asked_now_and_then_only(slurm, monkeypatch):
    monkeypatch.setattr(slurm_module, "QUERY_SECONDS", 600.0)
    queue = slurm_module.SlurmQueue()
    for _ in range(5):
        assert queue.lost(["7"]) == set()
    assert num_asked(slurm) == 1


def test_cores_are_shared_among_jobs(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert JobOptions(cpu=True).resolve(20) == (8, 1)
    assert JobOptions(cpu=True, num_jobs=3).resolve(20) == (3, 2)
    assert JobOptions(cpu=True, num_jobs=20).resolve(20) == (20, 1)
    assert JobOptions("slurm").resolve(20) == (20, 4)
    assert JobOptions(cpu=True, processes_per_node=2).resolve(20) == (4, 1)
    assert JobOptions(cpu=True, processes_per_node=2, num_jobs=1).resolve(20) == (1, 4)
    assert JobOptions(cpu=True, processes_per_node=16).resolve(20) == (1, 1)


def test_gpus_are_assigned_in_turn_by_their_visible_names(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for visible, names in (("2,5", ["2", "5"]), ("", ["0", "1"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert JobOptions().resolve(20) == (2, 4)
        assert _devices(JobOptions(), 3) == [*names, names[0]]
    assert _devices(JobOptions(cpu=True), 3) == [""] * 3
    assert _devices(JobOptions("slurm"), 3) == [None] * 3, "Slurm assigns them"
    assert _devices(JobOptions("slurm", cpu=True), 3) == [""] * 3


def test_runs_of_several_processes_have_gpus_of_their_own(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pairs = JobOptions(processes_per_node=2)
    pairs.check()
    assert pairs.resolve(20) == (2, 2)
    assert _devices(pairs, 3) == ["0,1", "2,3", "0,1"]
    with pytest.raises(ValueError, match=r"--gpus-per-run 6: PyTorch finds 5 GPUs on this machine\. Lower it"):
        JobOptions(processes_per_node=6).check()
    with pytest.raises(ValueError, match="--nodes-per-run 2 requires --cluster slurm"):
        JobOptions(num_nodes=2).check()
    JobOptions("slurm", processes_per_node=6, num_nodes=2).check()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_gpus_jobs_use_the_cpu():
    assert _devices(JobOptions(), 2) == [""] * 2
