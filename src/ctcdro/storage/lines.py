"""Text files line by line, with line numbers for error messages and limits for untrusted input."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator

from .paths import PathLike

# Bytes. A file without ends of lines, which may be packed a thousandfold, would otherwise take all the memory there is.
LONGEST_LINE = 2**24

# Per file. A compressed file of a few kilobytes can hold hundreds of millions.
MOST_BLANK_LINES = 1_000_000


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
