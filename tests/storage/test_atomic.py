"""Folders appear whole or not at all, and one process at a time may write them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ctcdro.storage.atomic import atomic_folder, atomic_write, atomic_write_many, remove_leftovers
from ctcdro.storage.locks import is_locked, lock_folder
from ctcdro.storage.paths import is_empty, refuse_link


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


def test_what_is_empty(tmp_path):
    assert is_empty(tmp_path)
    assert is_empty(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert not is_empty(tmp_path)


# Locks a folder, starts a worker as `multiprocessing` does, and sleeps.
HOLDER = """
import os, sys, time
from ctcdro.storage.locks import lock_folder
with lock_folder(sys.argv[1]):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_a_folder_has_one_writer_until_that_is_killed(tmp_path):
    """A worker that outlives the killed process must not keep the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        worker = int(holder.stdout.readline())
        try:
            assert is_locked(tmp_path)
            refused = pytest.raises(ValueError, match=rf"{tmp_path.name}: another process is writing to this folder")
            with refused, lock_folder(tmp_path):
                pass
            holder.kill()
            holder.wait()
            os.kill(worker, 0)  # it is alive
            assert not is_locked(tmp_path)
            with lock_folder(tmp_path):
                assert is_locked(tmp_path)
        finally:
            holder.kill()
            os.kill(worker, signal.SIGKILL)


def test_threads_of_one_process_keep_each_other_out(tmp_path):
    with lock_folder(tmp_path), pytest.raises(ValueError, match="another process"), lock_folder(tmp_path):
        pass
    assert not is_locked(tmp_path)


def test_a_writer_that_waits_gets_the_folder_when_it_is_free(tmp_path):
    order = []

    def wait():
        with lock_folder(tmp_path, wait=True):
            order.append("second")

    with lock_folder(tmp_path):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_that_is_a_link_is_refused_and_its_target_is_not_touched(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(ValueError, match=r"\.lock is a symbolic link"), lock_folder(tmp_path / "link"):
        pass
    (tmp_path / "hard").mkdir()
    (tmp_path / "hard" / ".lock").hardlink_to(tmp_path / "precious")
    with lock_folder(tmp_path / "hard"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def fail_in(folder, *written):
    with pytest.raises(ZeroDivisionError), lock_folder(folder):
        _ = [(folder / name).touch() for name in written], 1 / 0


def test_after_an_error_a_folder_is_gone_if_it_was_made_here_and_is_empty(tmp_path):
    fail_in(tmp_path / "deep" / "new")
    assert is_empty(tmp_path)
    fail_in(tmp_path / "deep" / "new", "file")
    assert (tmp_path / "deep" / "new" / "file").exists()
    (tmp_path / "there").mkdir()
    fail_in(tmp_path / "there")
    assert (tmp_path / "there").is_dir()


def test_two_that_fail_and_make_the_folder_again_never_hold_it_together(tmp_path):
    """The lock file is removed with a folder of which nothing came; one must not lock a file that is gone."""
    inside, seen, done = [], [], []

    def work(number):
        for _ in range(300):
            try:
                with lock_folder(tmp_path / "new", wait=bool(number % 2)):
                    inside.append(number)
                    seen.append(len(inside))
                    inside.remove(number)
                    raise ZeroDivisionError
            except (ZeroDivisionError, ValueError, FileNotFoundError):
                continue
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    assert sorted(done) == [0, 1, 2]


KILLED = """
import os, signal, sys
from pathlib import Path
from ctcdro.storage.atomic import atomic_write
from ctcdro.storage.atomic import atomic_folder
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


def test_links_are_refused_with_where_they_lead(tmp_path):
    (tmp_path / "checkpoints").symlink_to(tmp_path / "photos")
    with pytest.raises(ValueError, match=r"checkpoints is a symbolic link to .*photos"):
        refuse_link(tmp_path / "checkpoints")


@pytest.fixture
def disk(monkeypatch):
    """What is asked of the disk, in order: no test can cut the power."""
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
