"""JSON files and JSON lines.

Every JSON value of this package is parsed by `parse_json`, so errors have one form. A file has at most `MAX_BYTES`, and
a line the limit of `lines.py`: untrusted input cannot exhaust the memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .atomic import atomic_write
from .lines import numbered_bytes
from .paths import PathLike

MAX_BYTES = 2**24

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> Any:
    """Parses JSON; rejects unpaired UTF-16 surrogates, which cannot be written to a file or shown on a terminal."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("unpaired UTF-16 surrogate, which UTF-8 cannot represent") from error
    return value


def read_json(path: PathLike) -> Any:
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{os.fspath(path)}: the file is larger than {MAX_BYTES:,} bytes. Remove it.")
    try:
        return parse_json(content.decode())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: not JSON ({error})") from error


def write_json(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        json.dump(record, file, ensure_ascii=False, indent=2)
        file.write("\n")


def json_line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def append_line(path: Path, record: Any) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json_line(record))


def scan_json_lines(path: PathLike) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Yields the number of each nonblank line, with its object or, if it has none, the error."""
    for number, line in numbered_bytes(path):
        try:
            yield number, _parse_line(line)
        except ValueError as error:
            yield number, error.with_traceback(None)


def read_json_lines(path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `scan_json_lines`, but raises the first error, with file and line."""
    for number, record in scan_json_lines(path):
        if isinstance(record, ValueError):
            raise ValueError(f"{os.fspath(path)}:{number}: {record}") from record
        yield number, record


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Reads the records of a log up to the first invalid line, which a killed process may have left behind."""
    if path.exists():
        for _, record in scan_json_lines(path):
            if isinstance(record, ValueError):
                return
            yield record


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        record = parse_json(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error.reason})") from error
    except ValueError as error:
        raise ValueError(f"not a JSON object on one line ({error})") from error
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object on one line (got {record!r:.60})")
    return record
