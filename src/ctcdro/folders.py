"""Folders that are replaced atomically, and locks that allow one process at a time to write to a folder."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from .files import UNFINISHED, PathLike, flush_to_disk

logger = logging.getLogger(__name__)

LOCK = ".lock"
REPLACED = ".ctcdro-old"
LEFTOVER = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{32}}(?P<end>{re.escape(UNFINISHED)}|{re.escape(REPLACED)})")


@contextmanager
def folder_written_whole(folder: PathLike) -> Iterator[Path]:
    """A temporary folder to write to. It replaces `folder` once all of its content is on disk.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     with folder_written_whole(Path(parent, "notes")) as unfinished:
        ...         _ = (unfinished / "a.txt").write_text("a")
        ...     os.listdir(parent), os.listdir(Path(parent, "notes"))
        (['notes'], ['a.txt'])
    """
    folder = Path(os.path.abspath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished, old = (folder.with_name(f".{folder.name}.{uuid4().hex}{end}") for end in (UNFINISHED, REPLACED))
    unfinished.mkdir()
    try:
        yield unfinished
        for path in (*unfinished.rglob("*"), unfinished):
            flush_to_disk(path)
        if os.path.lexists(folder):
            folder.rename(old)  # a folder cannot be replaced in one step
        unfinished.rename(folder)
        flush_to_disk(folder.parent)
    finally:
        if os.path.lexists(old) and not os.path.lexists(folder):
            old.rename(folder)
        _remove(unfinished)
        _remove(old)


def _remove(path: Path) -> None:
    """Removes a file, a folder, or a symbolic link, but never what the link points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: PathLike) -> None:
    """Removes temporary files of killed processes from a folder; the caller must hold its lock.

    A folder that was moved aside gets its name back, unless its replacement exists.
    """
    for path in Path(folder).glob(".*"):
        if found := LEFTOVER.fullmatch(path.name):
            name = path.with_name(found["name"])
            if found["end"] == REPLACED and not os.path.lexists(name):
                path.rename(name)
            else:
                _remove(path)


def refuse_link(path: Path) -> None:
    """Rejects a symbolic link in an untrusted folder: files elsewhere would be replaced or removed.

    Raises:
        ValueError: names the link and its target.
    """
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link to {os.readlink(path)}, so nothing is read or written there. Remove the link, "
            "or choose another folder."
        )


@contextmanager
def lock_folder(folder: PathLike, *, wait: bool = False) -> Iterator[Path]:
    """Creates a folder, and locks it against other processes and threads until the end of the block.

    The lock is released when the process ends, even if it is killed; the file `.lock` stays. After an error, a folder
    that this function created is removed if it is empty.

    Args:
        folder: the folder.
        wait: whether to wait until the folder is free, instead of raising an error.

    Raises:
        ValueError: if another process holds it, or `.lock` is a symbolic link.
    """
    folder = Path(folder)
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    with _lock(folder, wait):
        try:
            yield folder
        except BaseException:
            with suppress(OSError):
                if missing and os.listdir(folder) == [LOCK]:
                    os.unlink(folder / LOCK)
                    for one in missing:
                        one.rmdir()
            raise


def is_locked(folder: PathLike) -> bool:
    """Whether a process holds the lock of a folder."""
    try:
        with _opened(Path(folder, LOCK), os.O_RDWR) as file:
            return not _is_taken(file, wait=False)
    except (OSError, ValueError):
        return False


@contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[None]:
    path = folder / LOCK
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with _opened(path, os.O_RDWR | os.O_CREAT) as file:
            if not _is_taken(file, wait):
                raise ValueError(
                    f"{folder}: another process is writing to this folder. Wait until it ends, or choose another one."
                )
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), os.lstat(path)):
                continue  # the last holder failed and removed the folder
            _held.add(file)
            try:
                yield
            finally:
                _held.discard(file)
            return


def _opened(path: Path, flags: int) -> IO[bytes]:
    """The lock file. It is never written to: it may be a hard link to another file."""
    try:
        return open(path, "rb", opener=lambda path, _: os.open(path, flags | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a symbolic link, so it cannot be a lock. Remove it.") from error
        raise


def _is_taken(file: IO[bytes], wait: bool) -> bool:
    """Takes a lock; returns False if another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        logger.warning("%s: this file system has no locks. Run only one process at a time in this folder.", file.name)
    return True


# A lock is held until all copies of its file are closed, so workers that outlive a killed process must have none.
_held: set[IO[bytes]] = set()


def _close_held() -> None:
    for file in _held:
        file.close()
    _held.clear()


os.register_at_fork(after_in_child=_close_held)


def is_empty(folder: PathLike) -> bool:
    """Whether there is no such folder, or nothing in it."""
    return not os.path.exists(folder) or not os.listdir(folder)
