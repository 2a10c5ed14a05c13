"""One process at a time may write to a folder."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ctcdro.storage.locks import is_locked, lock_folder
from ctcdro.storage.paths import is_empty

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


def test_a_lock_that_is_a_link_is_rejected_and_its_target_is_not_touched(tmp_path):
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
    """The lock file is removed together with an empty folder; a process must not lock a removed file."""
    inside, seen, done = [], [], []

    def work(number):
        for _ in range(300):
            try:
                with lock_folder(tmp_path / "new", wait=bool(number % 2)):
                    inside.append(number)
                    seen.append(len(inside))
                    inside.remove(number)
                    raise ZeroDivisionError
            except (ZeroDivisionError, ValueError):
                continue
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    assert sorted(done) == [0, 1, 2]
