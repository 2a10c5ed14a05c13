"""JSON files and JSON lines, from untrusted sources as well."""

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

# Of JSON. Python ends where a thousand calls are within each other; so deep, a value could be read and not be shown.
MOST_LEVELS = 100

# Bytes per JSON file, and values in it: an empty object takes three bytes in a file and 72 in memory.
LARGEST_JSON = 2**24
MOST_VALUES = 1_000_000


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


def write_json(path: Path, record: Any) -> None:
    """Writes a record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        json.dump(record, file, ensure_ascii=False, indent=2)
        file.write("\n")


def append_line(path: Path, record: Any) -> None:
    """Adds a record as one line."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of lines; a last line that broke off is left out.

    Raises:
        ValueError: naming the file and a line that holds something else.
    """
    if path.exists():
        for number, line in numbered_bytes(path):
            try:
                record = parse_json(line.decode())
            except ValueError:
                return
            if not isinstance(record, dict):
                raise ValueError(f"{path}:{number}: expected an object; got {record!r:.60}.")
            yield record
