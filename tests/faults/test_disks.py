"""A full or read-only disk: a message, nothing lost, and the same result once there is room."""

import os
import shutil
import subprocess

import pytest
from commands import Command, ended, make_commands

COMMANDS = ("prepare", "synthesis", "train", "sweep", "report")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("base")


@pytest.fixture
def small_disk(tmp_path):
    """A disk in memory whose size can be set; needs permission to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "disk", place]).returncode:
        pytest.skip("disks can be mounted by root only")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def remount(disk, options):
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


@pytest.fixture(scope="module")
def undisturbed(base, tmp_path_factory):
    """The result of each command on a large disk."""
    ends = {}
    for name, command in make_commands(base, tmp_path_factory.mktemp("undisturbed")).items():
        command.finish()
        ends[name] = ended(command.out)
    return ends


def assert_ended_as_it_would(command: Command, expected):
    found = ended(command.out)
    assert found.keys() == expected.keys()
    if command.name != "report":  # it contains a date
        assert found == expected


@pytest.mark.parametrize("size", ["64k", "400k", "2m"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_a_message_and_the_command_resumes_when_there_is_room(name, size, base, undisturbed, small_disk):
    remount(small_disk, f"size={size}")
    (small_disk / "out").mkdir()
    command = make_commands(base, small_disk / "out")[name]
    done = command.run()
    if done.returncode:
        assert "Traceback" not in done.stdout, done.stdout
        assert "No space left" in done.stdout or "failed" in done.stdout, done.stdout
        if "No space left" not in done.stdout:  # a sweep prints the paths of the logs of its runs
            logs = [path.read_text() for path in (small_disk / "out").rglob("*.out")]
            logs += [path.read_text() for path in (small_disk / "out").rglob("*.err")]
            assert any("No space left" in log for log in logs), logs
    remount(small_disk, "size=200m")
    command.finish()
    assert_ended_as_it_would(command, undisturbed[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_cannot_be_written_to_is_a_message(name, base, undisturbed, small_disk):
    (small_disk / "out").mkdir()
    remount(small_disk, "size=200m,ro")
    command = make_commands(base, small_disk / "out")[name]
    done = command.run()
    assert done.returncode
    assert "Traceback" not in done.stdout, done.stdout
    assert "read-only file system" in done.stdout.lower(), done.stdout
    remount(small_disk, "rw")
    command.finish()
    assert_ended_as_it_would(command, undisturbed[name])


def test_an_evaluation_on_a_full_disk_leaves_the_run_as_it_was(base, tmp_path, small_disk):
    make_commands(base, tmp_path / "outs")
    remount(small_disk, "size=200m")
    run = small_disk / "trained"
    shutil.copytree(base / "trained", run)
    used = sum(path.stat().st_blocks * 512 for path in run.rglob("*"))
    remount(small_disk, f"size={used // 1024 + 16}k")
    before = ended(run)
    command = Command("evaluate", ("evaluate", str(run), "--split", "test"), run)
    done = command.run()
    if done.returncode:
        assert "no space left" in done.stdout.lower()
        assert "Traceback" not in done.stdout
        assert ended(run) == before
    remount(small_disk, "size=200m")
    command.finish()
    assert ended(run).keys() > before.keys()
