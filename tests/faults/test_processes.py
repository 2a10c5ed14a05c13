"""If a process dies, the others stop with a message in bounded time, and the run resumes exactly."""

import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
import tones
from commands import ENVIRONMENT, Command, ended, write_run

SECONDS_TO_STOP = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return tones.write_dataset(tmp_path_factory.mktemp("dataset"))


def start_ranks(config, out, num_ranks=2):
    """The processes of a run, started one by one without a supervisor, as on a cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(num_ranks)}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "ctcdro", "train", str(config), "--out", str(out)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(num_ranks)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for rank in range(num_ranks)
    ]


def wait_for_steps(out, number, processes):
    log = out / "group_weights.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and all(process.poll() is None for process in processes):
        if log.exists() and len(log.read_text().splitlines()) >= number:
            return
        time.sleep(0.005)


def finish_ranks(config, out):
    processes = start_ranks(config, out)
    told = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    finish_ranks(write_run(folder, dataset), folder / "run")
    return ended(folder / "run")


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("step", [1, 4, 7])
def test_when_a_rank_is_killed_the_other_stops_with_a_message_and_the_run_resumes(rank, step, dataset, whole, tmp_path):
    config, out = write_run(tmp_path, dataset), tmp_path / "run"
    processes = start_ranks(config, out)
    wait_for_steps(out, step, processes)
    time.sleep(random.Random(f"{rank}{step}").uniform(0, 0.3))
    os.killpg(processes[rank].pid, signal.SIGKILL)
    other = processes[1 - rank]
    told, _ = other.communicate(timeout=SECONDS_TO_STOP)
    processes[rank].communicate()
    if other.returncode:  # otherwise the run had already finished
        assert "Traceback" not in told, told
        assert "another process" in told.lower(), told
        finish_ranks(config, out)
    assert ended(out) == whole


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_killed_worker_is_a_message_and_the_run_resumes(moment, dataset, tmp_path):
    alone = write_run(tmp_path, dataset, data={"num_workers": 0})
    plain = Command("train", ("train", str(alone), "--out", str(tmp_path / "plain")), tmp_path / "plain")
    plain.finish()
    config = write_run(tmp_path, dataset, data={"num_workers": 2})
    command = Command("train", ("train", str(config), "--out", str(tmp_path / "run")), tmp_path / "run")
    process = command.start()
    wait_for_steps(command.out, 2, [process])
    time.sleep(moment)
    children = subprocess.run(["pgrep", "--parent", str(process.pid)], capture_output=True, text=True).stdout.split()
    for child in children[:1]:
        os.kill(int(child), signal.SIGKILL)
    told, _ = process.communicate(timeout=SECONDS_TO_STOP)
    if process.returncode:
        # The remaining worker and torch's destructors may print other messages.
        assert any(line.startswith("ctcdro: A data-loading worker has died") for line in told.splitlines()), told
        command.finish()
    assert ended(command.out) == ended(plain.out)
