"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from .files import PathLike


@contextmanager
def folder_written_whole(folder: PathLike) -> Iterator[Path]:
    """A folder to write to, which takes its name, and the place of an earlier one, only when all is written.

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
    unfinished, old = (folder.with_name(f".{folder.name}.{uuid4().hex}.{state}") for state in ("new", "old"))
    unfinished.mkdir()
    try:
        yield unfinished
        if folder.exists():
            folder.rename(old)  # a folder cannot be replaced in one step
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def alone_in(folder: PathLike) -> Iterator[None]:
    """Holds a folder for this process, and those that it belongs to; free again when the process ends, however it does.

    Raises:
        ValueError: if another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or int(os.environ.get("RANK", "0")):  # of the processes of `torchrun`, the first holds it for all
        yield
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    with open(Path(folder, ".lock"), "w") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # unlike flock, not kept by workers that outlive us
        except OSError as error:
            raise ValueError(
                f"{folder}: another process is at work here. Wait for it, or give another folder."
            ) from error
        yield


def is_empty(folder: PathLike) -> bool:
    """Whether there is no such folder, or nothing in it."""
    return not os.path.exists(folder) or not os.listdir(folder)
