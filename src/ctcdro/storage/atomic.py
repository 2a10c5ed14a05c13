"""Atomic writes: a file or folder appears under its name only once all of its content is on disk.

Content is flushed to disk before the rename, and the parent folder after it. Only `atomic_write_bytes` does not flush.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

from .paths import PathLike

# Suffixes of unfinished and replaced files and folders, by which `remove_leftovers` finds them.
UNFINISHED = ".ctcdro-new"
REPLACED = ".ctcdro-old"
LEFTOVER = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{32}}(?P<end>{re.escape(UNFINISHED)}|{re.escape(REPLACED)})")


@contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[str]]:
    """Like `atomic_write_many`, for one file."""
    with atomic_write_many([path]) as [file]:
        yield file


@contextmanager
def atomic_write_many(paths: Sequence[PathLike]) -> Iterator[list[IO[str]]]:
    """Opens UTF-8 text files that appear under their names, one after the other, when the block ends.

    After an error none appears, and nothing is left. A file that the caller has closed by then is discarded.
    """
    names = [(_unfinished(path), Path(path)) for path in paths]
    try:
        with ExitStack() as stack:
            files: list[IO[str]] = [
                stack.enter_context(open(unfinished, "w", encoding="utf-8", newline="\n")) for unfinished, _ in names
            ]
            yield files
            wanted = [name for name, file in zip(names, files, strict=True) if not file.closed]
        for unfinished, _ in wanted:  # detects a full disk before any file is renamed
            flush_to_disk(unfinished)
        for unfinished, path in wanted:
            os.replace(unfinished, path)
        for parent in {path.parent for _, path in wanted}:
            flush_to_disk(parent)
    finally:
        for unfinished, _ in names:
            unfinished.unlink(missing_ok=True)


def atomic_write_bytes(path: PathLike, content: bytes) -> None:
    """Writes a binary file without flushing it to disk, which would take ten times as long for many small files.

    A power failure may truncate the file: callers must check its size, and be able to write it again.
    """
    unfinished = _unfinished(path)
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: PathLike) -> Iterator[Path]:
    """Creates a temporary folder to write to, which replaces `folder` when the block ends.

    Its files get the permissions of the umask: safetensors would make them private to the user.
    """
    folder = Path(os.path.abspath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _unfinished(folder)
    replaced = unfinished.with_suffix(REPLACED)
    unfinished.mkdir()
    mode = unfinished.stat().st_mode & 0o666
    try:
        yield unfinished
        for path in (*unfinished.rglob("*"), unfinished):
            if path.is_file() and not path.is_symlink():
                path.chmod(mode)
            flush_to_disk(path)
        if os.path.lexists(folder):
            folder.rename(replaced)  # a folder cannot be replaced in one step
        unfinished.rename(folder)
        flush_to_disk(folder.parent)
    finally:
        if os.path.lexists(replaced) and not os.path.lexists(folder):
            replaced.rename(folder)
        _remove(unfinished)
        _remove(replaced)


def flush_to_disk(path: PathLike) -> None:
    """Waits until the content of a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot flush folders
            raise
    finally:
        os.close(descriptor)


def _unfinished(path: PathLike) -> Path:
    path = Path(path)
    return path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")  # process ids can coincide on two machines


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
        if match := LEFTOVER.fullmatch(path.name):
            name = path.with_name(match["name"])
            if match["end"] == REPLACED and not os.path.lexists(name):
                path.rename(name)
            else:
                _remove(path)
