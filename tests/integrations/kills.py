"""`kill -9` of training scripts at random moments: the run must end with the same bytes as an uninterrupted one.

A script for `assert_kills_change_nothing` is called with a folder, `python script.py folder`. It

* trains the model of `tiny_wav2vec2`, resumes from the checkpoints in its folder, and exits with status 0 when done;
* calls `report_steps()` before it trains;
* at the end calls `write_result(folder, model, objective)`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

STEP = "optimizer step done"
RESULT_FILE = "result.bin"
TIMEOUT = 1800  # seconds; a process that hangs is killed, and the test fails


def report_steps() -> None:
    """Prints a line after every optimizer step of this process, whatever loop calls it."""
    register_optimizer_step_post_hook(lambda *_: print(STEP, flush=True))


def write_result(folder: Path, *modules: nn.Module) -> None:
    """Writes all parameters and buffers, in the order of `state_dict`."""
    tensors = [tensor for module in modules for tensor in module.state_dict().values()]
    Path(folder, RESULT_FILE).write_bytes(b"".join(tensor.cpu().numpy().tobytes() for tensor in tensors))


def assert_kills_change_nothing(script: Path, tmp_path: Path, num_kills: int, max_steps: int = 6) -> None:
    """Compares an uninterrupted run with one that is killed `num_kills` times and restarted each time.

    Args:
        script: see above. Its run must have more than `num_kills * max_steps` steps.
        tmp_path: an empty folder.
        num_kills: the moments are drawn with a fixed seed.
        max_steps: a process is killed after 0 to `max_steps` steps, and a random part of the time until the next one.
            After 0 steps: while it imports, or loads a checkpoint.
    """
    folders = tmp_path / "whole", tmp_path / "killed"
    for folder in folders:
        folder.mkdir()
    whole = _finish(script, folders[0])
    moments = random.Random(f"{script.name}, {num_kills} kills")
    for _ in range(num_kills):
        num_steps = moments.randint(0, max_steps)
        _kill(script, folders[1], num_steps, moments.random() * (whole[num_steps + 1] - whole[num_steps]))
    rest = _finish(script, folders[1])
    assert len(rest) < len(whole), "the killed run was not resumed, but started again"
    expected, found = ((folder / RESULT_FILE).read_bytes() for folder in folders)
    assert found == expected


@contextmanager
def _started(script: Path, folder: Path) -> Iterator[subprocess.Popen]:
    """A process that runs the script; it has ended after the block."""
    with subprocess.Popen(
        [sys.executable, script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that worker processes are killed, too
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # sums by several threads may differ in the last bit
    ) as process:
        watchdog = threading.Timer(TIMEOUT, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            yield process
            process.wait()
        finally:
            watchdog.cancel()


def _finish(script: Path, folder: Path) -> list[float]:
    """Runs the script to its end; returns the seconds at which it started, and at which each of its steps was done."""
    with _started(script, folder) as process:
        started, times, output = time.monotonic(), [0.0], []
        for line in process.stdout:
            output.append(line)
            if STEP in line:
                times.append(time.monotonic() - started)
    assert process.returncode == 0, "".join(output)
    return times


def _kill(script: Path, folder: Path, num_steps: int, delay: float) -> None:
    """Starts the script and kills it `delay` seconds after it has done `num_steps` steps."""
    with _started(script, folder) as process:
        output = []
        while num_steps and (line := process.stdout.readline()):
            output.append(line)
            num_steps -= STEP in line
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        output += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, f"ended before it could be killed: {''.join(output)}"
