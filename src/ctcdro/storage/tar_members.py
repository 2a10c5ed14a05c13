"""The members of a tar file, and where their content is, without reading it.

Only the headers of uncompressed files are read. Nothing is extracted, so names and links in an archive do no harm. A
truncated file is an error, not the end of the archive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 512
MAX_HEADER_BYTES = 2**20  # of a long name or of pax attributes
MAX_DIGITS = 20  # of a size

REGULAR = (b"0", b"\0", b"7")
LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL = b"L", b"K", b"x", b"g"


class TarMember(NamedTuple):
    name: str
    start: int
    """First byte of its content in the file."""
    size: int


def tar_members(file: BinaryIO, path: str) -> Iterator[TarMember]:
    """Yields the regular files in an archive, in its order.

    Args:
        file: seekable.
        path: for messages.

    Raises:
        ValueError: if the file is not an intact, uncompressed tar file. Names it and the position.
    """
    file_size = file.seek(0, os.SEEK_END)
    position = 0
    attributes: dict[str, str] = {}  # of the next member
    while True:
        header = _read(file, position, BLOCK, path)
        if header == bytes(BLOCK):
            return
        _check_sum(header, position, path)
        kind, size = header[156:157], int(attributes.get("size") or _number(header[124:136], position, path))
        start = position + BLOCK
        position = start + -(-size // BLOCK) * BLOCK
        if position > file_size:
            raise _truncated(path, f"a member of {size:,} bytes begins at byte {start:,} of {file_size:,}")
        if kind in (LONG_NAME, PAX):
            attributes |= _extended(kind, _read(file, start, _at_most(size, start, path), path), path)
            continue
        if kind in REGULAR:
            yield TarMember(attributes.get("path") or _name(header), start, size)
        if kind not in (LONG_LINK, PAX_GLOBAL):
            attributes = {}


def _read(file: BinaryIO, position: int, size: int, path: str) -> bytes:
    file.seek(position)
    content = file.read(size)
    if len(content) < size:
        raise _truncated(path, f"it ends at byte {position + len(content):,}, without the end of an archive")
    return content


def _truncated(path: str, problem: str) -> ValueError:
    return ValueError(f"{path}: truncated tar file: {problem}. Copy or write it again.")


def _check_sum(header: bytes, position: int, path: str) -> None:
    expected = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    try:
        is_right = int(header[148:156].strip(b" \0") or b"-1", 8) == expected
    except ValueError:
        is_right = False
    if not is_right:
        raise ValueError(
            f"{path}: not an uncompressed tar file: no valid header at byte {position:,}. Decompress it, or write it "
            "again."
        )


def _number(field: bytes, position: int, path: str) -> int:
    try:
        value = int.from_bytes(field[1:], "big") if field[0] == 0x80 else int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{path}: damaged tar file: a member at byte {position:,} has no valid size.")
    return value


def _at_most(size: int, position: int, path: str) -> int:
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"{path}: damaged tar file: a header of {size:,} bytes at byte {position:,}.")
    return size


def _name(header: bytes) -> str:
    name, prefix = (part.split(b"\0")[0].decode(errors="surrogateescape") for part in (header[:100], header[345:500]))
    return f"{prefix}/{name}" if prefix and header[257:262] == b"ustar" else name


def _extended(kind: bytes, content: bytes, path: str) -> dict[str, str]:
    """The path and the size in an extended header, if it has them."""
    if kind == LONG_NAME:
        return {"path": content.split(b"\0")[0].decode(errors="surrogateescape")}
    found = {}
    while content:
        length, _, _ = content.partition(b" ")
        if not _is_number(length) or not 0 < int(length) <= len(content):
            raise _invalid_attributes(path)
        record, content = content[len(length) + 1 : int(length) - 1], content[int(length) :]
        name, _, value = record.decode(errors="surrogateescape").partition("=")
        if name == "size" and not _is_number(value):
            raise _invalid_attributes(path)
        if name in ("path", "size"):
            found[name] = value
    return found


def _invalid_attributes(path: str) -> ValueError:
    return ValueError(f"{path}: damaged tar file: invalid pax attributes. Copy or write it again.")


def _is_number(digits: str | bytes) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
