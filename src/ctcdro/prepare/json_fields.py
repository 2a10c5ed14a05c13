"""Records in lists of other programs: an object on each line, with fields that may be missing or of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..speech.utterance import LONGEST
from ..storage.json_files import parse_json
from ..storage.lines import numbered_bytes
from ..storage.paths import PathLike


def read_records(path: PathLike) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The objects on the lines of a file and their numbers; what is wrong with the line where there is none."""
    for number, line in numbered_bytes(path):
        try:
            text = line.decode()
            if not text.strip():
                continue
            record = parse_json(text)
        except UnicodeDecodeError as error:
            yield number, f"not UTF-8 text ({error.reason})"
            continue
        except ValueError as error:
            yield number, f"not a JSON object on one line ({error})"
            continue
        yield number, record if isinstance(record, dict) else f"expected an object; got {type(record).__name__}"


def text_of(record: dict[str, Any], name: str) -> str | None:
    """A field of text; None if it says nothing.

    Raises:
        ValueError: if it is something else.
    """
    value = record.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be text; got {value!r:.60}")
    return value


def seconds_of(record: dict[str, Any], name: str, default: float | None = None) -> float | None:
    """A field of zero or more seconds, or what it is if it is missing.

    Raises:
        ValueError: if it is something else.
    """
    value = record.get(name, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LONGEST:
        raise ValueError(f"`{name}` must be zero or more seconds; got {value!r:.60}")
    return float(value)
