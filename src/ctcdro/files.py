"""Files: lines with their numbers, so that errors can name the place; JSON from untrusted sources; atomic writes.

A file appears under its name only once all of it is on disk: the content is flushed before the rename, and the folder
after it. Only `write_bytes_whole` does not flush.
"""

from __future__ import annotations

import codecs
import errno
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

# Per file. A compressed file of a few kilobytes can hold hundreds of millions.
MOST_BLANK_LINES = 1_000_000

# Of JSON. Python ends where a thousand calls are within each other; so deep, a value could be read and not be shown.
MOST_LEVELS = 100

# Bytes per JSON file, and values in it: an empty object takes three bytes in a file and 72 in memory.
LARGEST_JSON = 2**24
MOST_VALUES = 1_000_000

# Suffix of unfinished files and folders, by which `folders.remove_leftovers` finds them.
UNFINISHED = ".ctcdro-new"


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file and their numbers, from 1, without blank lines, line ends (also those of Windows) or a
    byte order mark; a name that ends in .gz is unpacked.

    Raises:
        ValueError: naming the file and the line that is not UTF-8 text or too long, or where packed data are damaged;
            or if there are more than `MOST_BLANK_LINES` blank lines.
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
    number = num_blank = 0
    with gzip.open(path, "rb") if os.fspath(path).endswith(".gz") else open(path, "rb") as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"{os.fspath(path)}:{number}: a line of more than {LONGEST_LINE:,} bytes")
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if not line.isspace() and line:
                    yield number, line.rstrip(b"\r\n")
                    continue
                num_blank += 1
                if num_blank > MOST_BLANK_LINES:
                    raise ValueError(f"{os.fspath(path)}:{number}: more than {MOST_BLANK_LINES:,} blank lines")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)}:{number + 1}: damaged gzip data ({error})") from error


def parse_json(text: str) -> Any:
    """The value that a text has in JSON.

    It has at most `MOST_VALUES` values, counted by brackets and commas, including those within strings.

    Example:
        >>> parse_json('{"a": [1, null]}')
        {'a': [1, None]}
        >>> parse_json('"' + chr(92) + 'ud800"')
        Traceback (most recent call last):
        ValueError: text with half of a character, which no file can hold

    Raises:
        ValueError: saying why there is none; also where others could read it and could not go on with it.
    """
    if text.count("[") + text.count("{") + text.count(",") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
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
        ValueError: naming the file, if it holds something else, or has more than `LARGEST_JSON` bytes.
    """
    with open(path, "rb") as file:
        content = file.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise ValueError(f"{os.fspath(path)}: larger than {LARGEST_JSON:,} bytes, so it is not read. Remove it.")
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
        for unfinished, _ in wanted:  # reports a full disk before any file is renamed
            flush_to_disk(unfinished)
        for unfinished, path in wanted:
            os.replace(unfinished, path)
        for parent in {path.parent for _, path in wanted}:
            flush_to_disk(parent)
    finally:
        for unfinished, _ in names:
            unfinished.unlink(missing_ok=True)


def write_bytes_whole(path: PathLike, content: bytes) -> None:
    """Writes a binary file under a temporary name and renames it when it is complete.

    It is not flushed to disk, which would take ten times as long for many small files. A power failure may truncate the
    file: callers must check its size, and be able to write it again.
    """
    with _taking_its_name_last(path, flush=False) as unfinished:
        unfinished.write_bytes(content)


def flush_to_disk(path: PathLike) -> None:
    """Waits until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot flush folders
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _taking_its_name_last(path: PathLike, flush: bool = True) -> Iterator[Path]:
    unfinished = _unfinished(path)
    try:
        yield unfinished
        if flush:
            flush_to_disk(unfinished)
        os.replace(unfinished, path)
        if flush:
            flush_to_disk(Path(path).parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _unfinished(path: PathLike) -> Path:
    path = Path(path)
    return path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")  # process ids may be equal on two machines


def _text_file(path: Path) -> IO[str]:
    return open(path, "w", encoding="utf-8", newline="\n")
