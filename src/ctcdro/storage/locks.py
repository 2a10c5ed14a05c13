"""Locks that allow one process at a time to write to a folder."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .paths import PathLike

logger = logging.getLogger(__name__)

LOCK = ".lock"

# Children that are killed together with their parent may hold its lock for a moment longer.
SECONDS_TO_DIE = 0.5


@contextmanager
def lock_folder(folder: PathLike, *, wait: bool = False) -> Iterator[Path]:
    """Creates a folder, and locks it against other processes and threads until the end of the block.

    The lock is released when the process ends, even if it is killed; the file `.lock` stays. After an error, a folder
    that this function created is removed if it is empty. While another process holds the lock, this function raises a
    ValueError, or waits if `wait` is true.
    """
    folder = Path(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with _lock(folder, wait):
        try:
            yield folder
        except BaseException:
            with suppress(OSError):
                if missing and os.listdir(folder) == [LOCK]:
                    os.unlink(folder / LOCK)
                    for path in missing:
                        path.rmdir()
            raise


def is_locked(folder: PathLike) -> bool:
    try:
        with _open(Path(folder, LOCK), os.O_RDWR) as file:
            return not _acquire(file, wait=False)
    except (OSError, ValueError):
        return False


@contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[None]:
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = _open(path, os.O_RDWR | os.O_CREAT)
        except (FileExistsError, FileNotFoundError):
            if os.path.lexists(folder) and not folder.is_dir():
                raise
            continue  # the last holder failed and removed the folder
        with file:
            deadline = time.monotonic() + SECONDS_TO_DIE
            while not (acquired := _acquire(file, wait)) and time.monotonic() < deadline:
                time.sleep(0.05)
            if not acquired:
                raise ValueError(
                    f"{folder}: another process is writing to this folder. Wait until it ends, or use another folder."
                )
            if not _is_same_file(file, path):
                continue  # the last holder failed and removed the file
            _held.add(file)
            try:
                yield
            finally:
                _held.discard(file)
            return


def _is_same_file(file: IO[bytes], path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    return False


def _open(path: Path, flags: int) -> IO[bytes]:
    """Opens the lock file, which is never written to: it may be a hard link to another file."""
    try:
        return open(path, "rb", opener=lambda path, _: os.open(path, flags | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a symbolic link; lock files must be regular files. Remove it.") from error
        raise


def _acquire(file: IO[bytes], wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        logger.warning("%s: this file system does not support locks. Run one process at a time per folder.", file.name)
    return True


# A lock is held until all copies of its file are closed, so forked workers, which may outlive a killed parent, must
# close theirs.
_held: set[IO[bytes]] = set()


def _close_held() -> None:
    for file in _held:
        file.close()
    _held.clear()


os.register_at_fork(after_in_child=_close_held)
