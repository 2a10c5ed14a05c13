"""Files: lines with their numbers, so that errors can name the place; JSON that comes from others; and files that
appear whole or not at all."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias
from uuid import uuid4

PathLike: TypeAlias = str | os.PathLike[str]

# Bytes. A file without ends of lines, which may be packed a thousandfold, would otherwise take all the memory there is.
LONGEST_LINE = 2**24

# Of JSON. Python ends where a thousand calls are within each other; so deep, a value could be read and not be shown.
MOST_LEVELS = 100


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file and their numbers, from 1, without blank lines, line ends (also those of Windows) or a
    byte order mark; a name that ends in .gz is unpacked.

    Raises:
        ValueError: naming the file and the line that is not UTF-8 text or too long, or where packed data are damaged.
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
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"{os.fspath(path)}:{number}: a line of more than {LONGEST_LINE:,} bytes")
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if line := line.rstrip(b"\r\n"):
                    yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)}:{number + 1}: damaged gzip data ({error})") from error


def parse_json(text: str) -> Any:
    """The value that a text has in JSON.

    Example:
        >>> parse_json('{"a": [1, null]}')
        {'a': [1, None]}
        >>> parse_json('"' + chr(92) + 'ud800"')
        Traceback (most recent call last):
        ValueError: text with half of a character, which no file can hold

    Raises:
        ValueError: saying why there is none; also where others could read it and could not go on with it.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"more than {MOST_LEVELS} levels of lists and objects") from error
    if text.count("[") + text.count("{") > MOST_LEVELS and _num_levels(value) > MOST_LEVELS:
        raise ValueError(f"more than {MOST_LEVELS} levels of lists and objects")
    if _PERHAPS_HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("text with half of a character, which no file can hold") from error
    return value


_PERHAPS_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _num_levels(value: Any) -> int:
    """Level by level, since calls within calls are what a deep value has no room for."""
    number, level = 0, [value]
    while level:
        number += 1
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return number - 1


def read_json(path: PathLike) -> Any:
    """The value in a file of JSON.

    Raises:
        ValueError: naming the file, if it holds something else.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return parse_json(content.decode())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: not JSON ({error})") from error


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
    with _taking_its_name_last(path) as unfinished, _text_file(unfinished) as file:
        yield file


@contextmanager
def written_together(paths: Sequence[PathLike]) -> Iterator[list[IO[str]]]:
    """UTF-8 text files to write to at the same time, which take their names, one after the other, only when all are
    written; on an error none does, and nothing is left. A file that the caller has closed by then is thrown away.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_together([Path(folder, "a.txt"), Path(folder, "b.txt")]) as (one, other):
        ...         _ = one.write("řeč")
        ...         other.close()
        ...     os.listdir(folder)
        ['a.txt']
    """
    names = [(_unfinished(path), Path(path)) for path in paths]
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(_text_file(unfinished)) for unfinished, _ in names]
            yield files
            wanted = [name for name, file in zip(names, files, strict=True) if not file.closed]
        # All is on its way to the disk: that it is full was told before this.
        for unfinished, path in wanted:
            os.replace(unfinished, path)
    finally:
        for unfinished, _ in names:
            unfinished.unlink(missing_ok=True)


def write_bytes_whole(path: PathLike, content: bytes) -> None:
    """Writes a binary file that takes its name only when all is written."""
    with _taking_its_name_last(path) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def _taking_its_name_last(path: PathLike) -> Iterator[Path]:
    unfinished = _unfinished(path)
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _unfinished(path: PathLike) -> Path:
    path = Path(path)
    return path.with_name(f".{path.name}.{uuid4().hex}")  # processes of other machines may have the same number


def _text_file(path: Path) -> IO[str]:
    return open(path, "w", encoding="utf-8", newline="\n")
