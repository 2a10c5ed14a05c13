"""Files and folders are written completely or not at all."""

import os
import subprocess
import sys

import pytest

from ctcdro.storage import atomic
from ctcdro.storage.atomic import (
    atomic_folder,
    atomic_write,
    atomic_write_bytes,
    atomic_write_many,
    remove_leftovers,
)


def test_a_folder_replaces_an_earlier_one_when_it_is_complete(tmp_path):
    target = tmp_path / "deep" / "model"
    for content in ("one", "two"):
        with atomic_folder(target) as unfinished:
            (unfinished / content).write_text(content)
            assert not (target / content).exists()
        assert [path.name for path in target.iterdir()] == [content]
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_a_failure_leaves_everything_as_it_was(tmp_path):
    with atomic_folder(tmp_path / "model") as unfinished:
        (unfinished / "one").write_text("one")

    def fail():
        with atomic_folder(tmp_path / "model") as unfinished:
            (unfinished / "two").write_text("two")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["one"]


def test_a_name_relative_to_the_working_folder_will_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_folder("model"):
        pass
    assert (tmp_path / "model").is_dir()


def test_a_file_that_fails_halfway_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        print("new", file=file, end=7)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    atomic_write_bytes(path, b"new")
    assert path.read_bytes() == b"new"


def write_all(paths, *, fail):
    with atomic_write_many(paths) as several:
        for file in several:
            file.write("new")
        assert not any(path.exists() and path.read_text() == "new" for path in paths)
        if fail:
            raise KeyboardInterrupt
        several[1].close()


def test_files_take_their_names_together_or_none_does(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_all(paths, fail=True)
    assert [path.read_text() for path in paths] == ["old"] * 3
    assert sorted(tmp_path.iterdir()) == paths
    write_all(paths, fail=False)
    assert [path.read_text() for path in paths] == ["new", "old", "new"]  # one was closed before the end
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_disk_that_is_full_at_the_very_end_changes_nothing(tmp_path, monkeypatch):
    """Content is buffered: a full disk is detected when files are closed, before any is renamed."""

    def open_on_full_disk(path, *arguments, **options):
        return open("/dev/full" if path.name.startswith(".c.") else path, *arguments, **options)

    monkeypatch.setattr(atomic, "open", open_on_full_disk, raising=False)
    with pytest.raises(OSError, match="No space left"):
        write_all([tmp_path / name for name in "abc"], fail=False)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from ctcdro.storage.atomic import atomic_folder, atomic_write
folder = Path(sys.argv[1])
with atomic_folder(folder / "best") as best, atomic_write(folder / "run.json") as file:
    (best / "weights").write_text("half")
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == 2
    others = {".run.json.backup", ".best.0123", ".lock", "run.json.ctcdro-new", f".mine.{'0' * 32}"}
    for name in others:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others


def test_a_folder_that_was_moved_aside_gets_its_name_back(tmp_path):
    aside = tmp_path / f".best.{'a' * 32}.ctcdro-old"
    aside.mkdir()
    (aside / "weights").write_text("the only ones")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert (tmp_path / "best" / "weights").read_text() == "the only ones"


def test_a_link_in_the_place_of_a_folder_is_replaced_and_its_target_stays(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (tmp_path / "model").symlink_to(tmp_path / "elsewhere")
    with atomic_folder(tmp_path / "model") as unfinished:
        (unfinished / "weights").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "model", "precious", "weights"]
    assert not (tmp_path / "model").is_symlink()


@pytest.fixture
def disk(monkeypatch):
    """Records the operations on the disk in order, because no test can cut the power."""
    events = []

    def noted(name, function, note):
        def call(*arguments):
            events.append((name, note(*arguments)))
            return function(*arguments)

        return call

    def of_descriptor(descriptor):
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync, of_descriptor))
    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, noted("rename", getattr(os, name), lambda _, new: os.path.basename(new)))
    return events


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the names of open files")
def test_content_is_flushed_before_a_name_is_given_and_the_folder_after(tmp_path, disk):
    def is_of(event, kind, name):
        return event[0] == kind and (event[1] == name or event[1].startswith(f".{name}."))

    with atomic_write(tmp_path / "one"):
        pass
    assert [is_of(disk[0], "fsync", "one"), *disk[1:]] == [True, ("rename", "one"), ("fsync", tmp_path.name)]
    disk.clear()
    with atomic_write_many([tmp_path / "two", tmp_path / "three"]):
        pass
    assert is_of(disk[0], "fsync", "two")
    assert is_of(disk[1], "fsync", "three")
    assert disk[2:] == [("rename", "two"), ("rename", "three"), ("fsync", tmp_path.name)]
    disk.clear()
    with atomic_folder(tmp_path / "model") as unfinished:
        (unfinished / "weights").touch()
    assert disk[0] == ("fsync", "weights")
    assert is_of(disk[1], "fsync", "model")
    assert disk[2:] == [("rename", "model"), ("fsync", tmp_path.name)]


def test_files_have_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_folder(tmp_path / "model") as unfinished:
            private = os.open(unfinished / "weights", os.O_WRONLY | os.O_CREAT, 0o600)
            os.close(private)
    finally:
        os.umask(before)
    assert (tmp_path / "model" / "weights").stat().st_mode & 0o777 == 0o640
