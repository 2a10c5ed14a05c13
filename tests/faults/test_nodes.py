"""A run on two nodes, each with its torchrun: if a node dies, the other ends with a message, and the run resumes.

`accelerate launch` starts the same run.
"""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import tones
from commands import ENVIRONMENT, ended, write_run

SECONDS_TO_STOP = 60


class Node:
    """One node, as on the page "Use several GPUs": an agent and its worker."""

    def __init__(self, config, out, port):
        rendezvous = ["--rdzv-id", "first", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
        launcher = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", *rendezvous]
        self.agent = subprocess.Popen(
            [sys.executable, *launcher, "-m", "ctcdro", "train", str(config), "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
        )

    def kill(self):
        """Kills the agent and its worker."""
        command = ["pgrep", "--parent", str(self.agent.pid)]
        workers = subprocess.run(command, capture_output=True, text=True).stdout.split()
        for process in (self.agent.pid, *map(int, workers)):
            os.kill(process, signal.SIGKILL)
        self.agent.communicate()

    def end(self, seconds):
        """The exit status and the output."""
        try:
            told, _ = self.agent.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.agent.returncode, told


def start_nodes(config, out):
    """Two nodes, of which the first keeps the rendezvous."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = Node(config, out, port)
    while first.agent.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    return [first, Node(config, out, port)]


def finish(nodes):
    ends = [node.end(900) for node in nodes]
    assert [status for status, _ in ends] == [0, 0], ends


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    training = {"num_batches": 96, "validate_every_batches": 32, "checkpoint_every_steps": 2, "trackers": []}
    return write_run(folder, tones.write_dataset(folder / "dataset"), training=training)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(start_nodes(config, out))
    return ended(out)


@pytest.mark.parametrize("killed", [0, 1], ids=["that keeps the rendezvous", "other"])
def test_when_a_node_dies_the_other_ends_with_a_message_and_the_run_resumes(killed, config, whole, tmp_path):
    out = tmp_path / "run"
    nodes = start_nodes(config, out)
    steps = out / "group_weights.jsonl"
    while not (steps.exists() and len(steps.read_text().splitlines()) >= 5):
        assert all(node.agent.poll() is None for node in nodes)
        time.sleep(0.01)
    nodes[killed].kill()
    started = time.monotonic()
    status, told = nodes[1 - killed].end(SECONDS_TO_STOP)
    print(f"The other node ended after {time.monotonic() - started:.1f} s.")
    assert status != 0
    assert "ctcdro: Another process of this run has died or cannot be reached" in told
    assert "Start all processes again to resume." in told
    assert not (out / "model").exists()
    finish(start_nodes(config, out))
    assert ended(out) == whole


def test_accelerate_launch_trains_the_same_model(config, whole, tmp_path):
    launcher = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--multi_gpu"]
    launcher += ["--num_processes", "2", "--main_process_port", "0"]
    train = ["-m", "ctcdro", "train", str(config), "--out", str(tmp_path / "run"), "--device", "cpu"]
    done = subprocess.run([*launcher, *train], env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert ended(tmp_path / "run") == whole
