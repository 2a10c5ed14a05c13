"""Truncated WAV and Ogg files. libsndfile reads them as shorter files."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

# Programs that write to a pipe do not know the size, and state 0, nearly 2 GB or nearly 4 GB.
UNKNOWN_SIZES = 0x7FFFF000

# Some programs count the header as audio. At 16 kHz with 16 bits, this is 32 ms.
TOLERATED_BYTES = 1024

# An Ogg page has a header of 27 bytes, up to 255 sizes of one byte each, and up to 255 segments of 255 bytes.
PAGE_HEADER = 27
LARGEST_PAGE = PAGE_HEADER + 255 + 255 * 255


def is_truncated(source: str | io.BytesIO) -> bool:
    """Whether a WAV file is shorter than its header says, or an Ogg file ends within a page.

    Args:
        source: a path, or a file in memory.
    """
    with open(source, "rb") if isinstance(source, str) else io.BytesIO(source.getvalue()) as file:
        start = file.read(12)
        if start.startswith(b"RIFF") and start.endswith(b"WAVE"):
            return _wav_is_truncated(file)
        return start.startswith(b"OggS") and _ogg_is_truncated(file)


def _wav_is_truncated(file: BinaryIO) -> bool:
    while len(chunk := file.read(8)) == 8:
        size = int.from_bytes(chunk[4:], "little")
        if chunk.startswith(b"data"):
            start = file.tell()
            return size < UNKNOWN_SIZES and start + size > file.seek(0, os.SEEK_END) + TOLERATED_BYTES
        file.seek(size + size % 2, os.SEEK_CUR)  # chunks have an even size
    return False


def _ogg_is_truncated(file: BinaryIO) -> bool:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LARGEST_PAGE))
    end = file.read()
    page = end[end.rfind(b"OggS\0") :]
    if not page.startswith(b"OggS\0"):  # other data after the last page
        return False
    if len(page) < PAGE_HEADER:
        return True
    sizes = page[PAGE_HEADER : PAGE_HEADER + page[PAGE_HEADER - 1]]
    return len(page) < PAGE_HEADER + page[PAGE_HEADER - 1] + sum(sizes)
