"""Files on disk and on object stores such as S3, by path or URL.

URLs are opened by fsspec, which torch requires. Each kind of store needs its own package, such as s3fs.

Guarantees: an error of a store is an `OSError` that names the URL and what to do, a `FileNotFoundError` if nothing is
there. A store that does not answer is an error after `SECONDS_PER_REQUEST` if its client is asynchronous, such as those
of S3, Google Cloud, Azure and HTTP; other clients have their own limits.
"""

from __future__ import annotations

import errno
import io
import os
import re
from typing import Any, BinaryIO

SECONDS_PER_REQUEST = 60.0  # with all its retries
BYTES_PER_REQUEST = 2**23
MAX_BYTES = 2**31  # of a file that is downloaded as a whole

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_url(location: str) -> bool:
    return _URL.match(location) is not None


def open_binary(location: str) -> BinaryIO:
    """Opens a file for reading; it is seekable."""
    if is_url(location):
        return io.BufferedReader(_RemoteFile(location), BYTES_PER_REQUEST)
    return open(location, "rb")


def read_range(location: str, start: int, size: int) -> bytes:
    """Reads part of a file; the result is shorter if the file ends. One request if it is remote."""
    if is_url(location):
        content: bytes = _request(location, "cat_file", start=start, end=start + size)
        if len(content) > size:
            raise _failure(
                location, f"{size:,} bytes were requested, but {len(content):,} received: the server ignores ranges"
            )
        return content
    descriptor = os.open(location, os.O_RDONLY)
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)


def download(url: str) -> bytes:
    """The whole content of a file."""
    content = read_range(url, 0, BYTES_PER_REQUEST)
    if len(content) < BYTES_PER_REQUEST:
        return content
    with open_binary(url) as file:
        size = file.seek(0, os.SEEK_END)
        if size > MAX_BYTES:
            raise OSError(f"{url}: {size:,} bytes, more than the limit of {MAX_BYTES:,}. Split the file.")
        file.seek(len(content))
        return content + file.read(size - len(content))


class _RemoteFile(io.RawIOBase):
    def __init__(self, url: str) -> None:
        self._url = url
        self._size: int = _request(url, "size")
        if self._size is None:
            raise _failure(url, "the server does not send its size")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), BYTES_PER_REQUEST, self._size - self._position)
        if size <= 0:
            return 0
        content = read_range(self._url, self._position, size)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


def _request(url: str, method: str, **options: Any) -> Any:
    """Calls a method of the file system of a URL."""
    filesystem, path = _filesystem(url)
    if filesystem.async_impl:
        options["timeout"] = SECONDS_PER_REQUEST
    try:
        return getattr(filesystem, method)(path, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{url}: no such object or bucket. Has it been moved?") from error
    except TimeoutError as error:
        raise _failure(url, f"no answer within {SECONDS_PER_REQUEST:g} s") from error
    except OSError as error:
        # S3 rejects every range of an empty object, with the number that it also has for wrong credentials and regions.
        if error.errno == errno.EINVAL and options.get("start") == 0 and _request(url, "size") == 0:
            return b""
        raise _failure(url, error.strerror or str(error)) from error
    except Exception as error:  # of the library of the store, such as for missing credentials
        raise _failure(url, f"{type(error).__name__}: {error}") from error


def _failure(url: str, reason: str) -> OSError:
    reason = " ".join(reason.split()).rstrip(".")
    return OSError(f"{url}: cannot be read ({reason}). Check the address, the credentials and the store.")


def _filesystem(url: str) -> tuple[Any, str]:
    # Not kept: a connection must not be used by the workers that a process forks. fsspec keeps one per process.
    from fsspec.core import url_to_fs

    if "::" in url:  # parts of a chain can make fsspec read further files, and evaluate the templates in them
        raise OSError(f"{url}: chains of URLs are not supported. Use the URL of one file.")
    try:
        filesystem, path = url_to_fs(url)
    except Exception as error:  # such as a missing package, or an unknown kind of store
        raise OSError(f"{url}: cannot be opened ({error})") from error
    # Opening a pipe would wait for its writer.
    if "file" in filesystem.protocol and os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{url}: is a folder, pipe or device; expected a file.")
    return filesystem, path
