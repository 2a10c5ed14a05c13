"""Files: lines with their numbers, so that errors can name the place, and files that appear whole or not at all."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias
from uuid import uuid4

PathLike: TypeAlias = str | os.PathLike[str]


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file and their numbers, from 1, without blank lines, line ends (also those of Windows) or a
    byte order mark; a name that ends in .gz is unpacked.

    Raises:
        ValueError: naming the file and the line that is not UTF-8 text, or where packed data are damaged.
    """
    for number, line in numbered_bytes(path):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: not UTF-8 text ({error.reason})") from error
        if text.strip():
            yield number, text


def numbered_bytes(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """As `numbered_lines`, not decoded yet, so that one bad line need not end the reading."""
    number = 0
    with gzip.open(path, "rb") if os.fspath(path).endswith(".gz") else open(path, "rb") as file:
        try:
            for number, line in enumerate(file, start=1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if line := line.rstrip(b"\r\n"):
                    yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)}:{number + 1}: damaged gzip data ({error})") from error


@contextmanager
def written_whole(path: PathLike) -> Iterator[IO[str]]:
    """A UTF-8 text file to write to, which takes its name only when all is written; on an error nothing is left.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_whole(Path(folder, "notes.txt")) as file:
        ...         _ = file.write("řeč")
        ...     Path(folder, "notes.txt").read_text(encoding="utf-8")
        'řeč'
    """
    with _taking_its_name_last(path) as unfinished, open(unfinished, "w", encoding="utf-8", newline="\n") as file:
        yield file


def write_bytes_whole(path: PathLike, content: bytes) -> None:
    """Writes a binary file that takes its name only when all is written."""
    with _taking_its_name_last(path) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def _taking_its_name_last(path: PathLike) -> Iterator[Path]:
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")  # processes of other machines may have the same number
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
