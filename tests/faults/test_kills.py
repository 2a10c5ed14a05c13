"""kill -9 at random moments, then the same command again: nothing is lost, and the result is the same."""

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from commands import Command, ended, make_commands

NUM_KILLS = 10  # of each command

COMMANDS = ("prepare", "synthesis", "train", "evaluate", "sweep", "report")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("base")


def command_named(name, base, outs) -> Command:
    commands = make_commands(base, outs)
    if name != "evaluate":
        return commands[name]
    # It writes to the folder of a run, so each needs a separate one.
    shutil.copytree(base / "trained", outs / "trained", dirs_exist_ok=True)
    return Command("evaluate", ("evaluate", str(outs / "trained"), "--split", "test"), outs / "trained")


def kill(process) -> None:
    """Kills the command and all processes that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_moments_and_given_again_a_command_ends_the_same(name, base, tmp_path):
    whole = command_named(name, base, tmp_path / "whole")
    started = time.monotonic()
    whole.finish()
    seconds = time.monotonic() - started

    command = command_named(name, base, tmp_path / "killed")
    moments = random.Random(name)
    num_killed = 0
    while num_killed < NUM_KILLS:
        process = command.start()
        time.sleep(moments.uniform(0.1, 0.8) * seconds)
        was_at_work = process.poll() is None
        kill(process)
        num_killed += was_at_work
        if not was_at_work:  # it finished, and starts again
            shutil.rmtree(tmp_path / "killed")
            command = command_named(name, base, tmp_path / "killed")
    command.finish()
    expected, found = ended(whole.out), ended(command.out)
    assert found.keys() == expected.keys()
    for path in expected:
        if name != "report":  # it contains a date
            assert found[path] == expected[path], path


def test_killed_while_it_writes_a_checkpoint_a_run_ends_the_same(base, tmp_path):
    whole = command_named("train", base, tmp_path / "whole")
    whole.finish()
    command = command_named("train", base, tmp_path / "killed")
    moments = random.Random(0)
    num_killed = 0
    while num_killed < NUM_KILLS:
        process = command.start()
        while process.poll() is None and not unfinished_checkpoints(command):
            time.sleep(0.0002)
        time.sleep(moments.uniform(0, 0.01))
        kill(process)
        num_killed += bool(unfinished_checkpoints(command))
        if (command.out / "model").exists():  # it finished, and starts again
            shutil.rmtree(tmp_path / "killed")
            command = command_named("train", base, tmp_path / "killed")
    command.finish()
    assert ended(command.out) == ended(whole.out)


def unfinished_checkpoints(command: Command) -> list[Path]:
    return list((command.out / "checkpoints").glob(".[0-9]*"))
