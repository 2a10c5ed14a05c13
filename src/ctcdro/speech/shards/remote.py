"""Files on disk and on object stores such as S3, by path or URL.

URLs are opened by fsspec, which torch requires. Each kind of store needs its own package, such as s3fs.
"""

from __future__ import annotations

import os
import re
from typing import Any, BinaryIO

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_url(location: str) -> bool:
    return _URL.match(location) is not None


def open_binary(location: str) -> BinaryIO:
    """Opens a file for reading; it is seekable."""
    if not is_url(location):
        return open(location, "rb")
    filesystem, path = _filesystem(location)
    file: BinaryIO = filesystem.open(path, "rb")
    return file


def read_range(location: str, start: int, size: int) -> bytes:
    """Reads part of a file; the result is shorter if the file ends. One request if it is remote."""
    if is_url(location):
        filesystem, path = _filesystem(location)
        try:
            content: bytes = filesystem.cat_file(path, start=start, end=start + size)
        except OSError:
            raise
        except Exception as error:  # of the library of the store, such as for a server that is overloaded
            raise OSError(f"{type(error).__name__}: {error}") from error
        if len(content) > size:
            raise OSError(f"{size:,} bytes were requested, but {len(content):,} received: the server ignores ranges")
        return content
    descriptor = os.open(location, os.O_RDONLY)
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)


def _filesystem(location: str) -> tuple[Any, str]:
    # Not kept: a connection must not be used by the workers that a process forks. fsspec keeps one per process.
    from fsspec.core import url_to_fs

    try:
        filesystem, path = url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{location}: cannot be opened ({error})") from error
    return filesystem, path
