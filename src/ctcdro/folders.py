"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    unfinished, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    unfinished.mkdir()
    try:
        yield unfinished
        if folder.exists():
            folder.rename(old)  # a folder cannot be replaced in one step
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def is_empty(folder: PathLike) -> bool:
    """Whether there is no such folder, or nothing in it."""
    return not os.path.exists(folder) or not os.listdir(folder)
