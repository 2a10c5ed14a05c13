"""Small runs of what the paper trains, in processes that can be killed: a pretrained encoder with dropout, under the
Transformer head with its SpecAugment and dropout.

Processes are forked from one that has imported everything. A start then takes a fraction of the time of a new
interpreter, and a test can afford many.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from tones import write_dataset

from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import read_log
from ctcdro.training.loop import train

MODELS = {
    "fine-tuning": {},
    "LoRA": {"lora": {"rank": 2, "dropout": 0.1}},
    "frozen": {"freeze_encoder": True},
    "linear head": {"head": "linear", "spec_augment": True},
}

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["accelerate", "ctcdro.training.loop", "peft", "transformers"])
SECONDS_TO_END = 1_200


def make_config(dataset, encoder, model=None, *overrides):
    """Nine steps in three intervals of validation; a checkpoint after steps 2, 3, 4, 6, 8 and 9."""
    values = {
        "dataset": str(dataset),
        "model": {"encoder": str(encoder), **MODELS.get(model, {})},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 2.0},
        "optimizer": {"learning_rate": 1e-3, "batches_per_step": 2},
        "training": {"num_batches": 18, "validate_every_batches": 6, "checkpoint_every_steps": 2, "trackers": []},
    }
    return parse_config(values, overrides)


# With `make_config`: each process takes two batches per step, and skips many.
SKIPPING = ("data.on_bad_audio=skip", "sampling.batch_duration=0.8", "optimizer.batches_per_step=4")
SKIPPING += ("training.num_batches=24", "training.validate_every_batches=12")


def write_junk(folder):
    """A dataset of which part of the audio cannot be read."""
    write_dataset(folder, num_train=10, num_dev=2)
    for path in sorted(folder.glob("aaa-train-*.wav"))[:8]:
        path.write_bytes(b"RIFF")
    return folder


class InterruptedRunError(Exception):
    pass


def interrupt(config, out, step, after="step"):
    """Starts or resumes a run that is interrupted after a step, or after the following validation."""

    def fail(record):
        if record["step"] == step and (after == "validation") == ("validation" in record):
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(config, out, callback=fail)


def outcome(path):
    """The files of a run, without times."""
    folder = RunFolder(path)
    files = sorted(path for path in folder.model.rglob("*") if path.is_file())
    log = [{**record, "seconds": None} for record in read_log(folder.log)]
    files += [folder.group_weights, folder.diagnosis, folder.suspicious]
    return {path.name: path.read_bytes() for path in files} | {"log": log}


class Launch:
    """One run of `ctcdro.training.loop.train`, by one process or several.

    Args:
        config: a file.
        out: the folder of the run.
        num_processes: ranks of the run.
        killed_at: the step after which the first process kills itself, if any.
    """

    def __init__(self, config: Path, out: Path, num_processes: int = 1, killed_at: int | None = None) -> None:
        self.out = out
        self._report = out.with_suffix(".stderr")
        self._report.unlink(missing_ok=True)
        port = _free_port()
        self._joined = [CONTEXT.Event() for _ in range(num_processes)]
        self._processes = [
            CONTEXT.Process(
                target=_train,
                args=(config, out, self._report, rank, num_processes, port, killed_at, self._joined[rank]),
            )
            for rank in range(num_processes)
        ]
        for process in self._processes:
            process.start()

    @property
    def is_running(self) -> bool:
        return all(process.is_alive() for process in self._processes)

    @property
    def have_joined(self) -> bool:
        """Whether the ranks of several have met. Before, torch waits for a missing rank for half an hour; `torchrun`
        ends the others at once."""
        return all(joined.is_set() for joined in self._joined)

    @property
    def errors(self) -> str:
        return self._report.read_text() if self._report.exists() else ""

    def finish(self) -> None:
        """Waits until all processes have ended successfully."""
        codes = self.wait()
        assert codes == [0] * len(codes), self.errors
        assert "Warning" not in self.errors, self.errors

    def wait(self) -> list[int | None]:
        """Waits until all processes have ended, and returns their exit status."""
        deadline = time.monotonic() + SECONDS_TO_END
        while any(process.is_alive() for process in self._processes) and time.monotonic() < deadline:
            if any(process.exitcode for process in self._processes):
                break  # the others would wait for it
            time.sleep(0.002)
        return self.kill()

    def wait_for_each(self, seconds: float) -> list[int | None]:
        """Waits until each process has ended by itself, and returns their exit status; None if it has not."""
        deadline = time.monotonic() + seconds
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
        codes = [process.exitcode for process in self._processes]
        self.kill()
        return codes

    def kill(self) -> list[int | None]:
        """Kills all processes and the workers that they have started, at once."""
        for rank in range(len(self._processes)):
            self.kill_rank(rank)
        for process in self._processes:
            process.join()
        return [process.exitcode for process in self._processes]

    def kill_rank(self, rank: int) -> None:
        """Kills one process and the workers that it has started."""
        process = self._processes[rank]
        if process.is_alive():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has no group yet
                process.kill()


def _train(config, out, report, rank, num_processes, port, killed_at, joined):
    os.setsid()
    sys.stderr = open(report, "a", encoding="utf-8")  # noqa: SIM115
    if num_processes > 1:
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "LOCAL_WORLD_SIZE": num_processes}
        os.environ |= {name: str(value) for name, value in ranks.items()}
        # `torchrun` sets one thread, too; without it, accelerate warns.
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    import torch

    from ctcdro.runs.config import read_config

    join = torch.distributed.init_process_group

    def join_and_tell(*args, **kwargs):
        join(*args, **kwargs)
        joined.set()

    torch.distributed.init_process_group = join_and_tell

    def watch(record):
        if record["step"] == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)  # sums by several threads may differ in the last bit
    train(read_config(config), out, watch)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
