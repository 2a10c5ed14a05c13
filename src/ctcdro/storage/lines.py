"""Text files line by line, plain or gzipped, with line numbers for error messages.

A line has at most `MAX_LINE_BYTES`, so a file without line ends cannot exhaust the memory, even if it is compressed.
"""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator

from .paths import PathLike

MAX_LINE_BYTES = 2**24


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Reads the lines of a UTF-8 file with their line numbers, starting at 1.

    Blank lines, line ends (including Windows line ends) and a byte order mark are dropped. Files ending in .gz are
    decompressed.
    """
    for number, line in numbered_bytes(path):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: not UTF-8 text ({error.reason})") from error
        if text.strip():
            yield number, text


def numbered_bytes(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Like `numbered_lines`, but does not decode the lines: a reader can continue after an invalid one."""
    number = 0
    with gzip.open(path, "rb") if os.fspath(path).endswith(".gz") else open(path, "rb") as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError(f"{os.fspath(path)}:{number}: the line has more than {MAX_LINE_BYTES:,} bytes")
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)}:{number + 1}: damaged gzip data ({error})") from error
