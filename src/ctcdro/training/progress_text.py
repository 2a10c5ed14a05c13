"""The progress of a run in words, from the records of its log.

`ProgressLines` prints a line from time to time, for files; `last_record` reads the progress of another process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..runs.folder import is_number
from ..scoring.formatting import format_percent
from ..speech.language_names import language_name
from ..storage.json_files import parse_json

Item = TypeVar("Item")

LINE_SECONDS = 30.0
LINE_FRACTION = 0.01


class LinePace:
    """Limits lines about the same work: at most one per `LINE_SECONDS`, and per `LINE_FRACTION` of the work."""

    def __init__(self) -> None:
        self._time, self._fraction = time.monotonic(), 0.0

    def is_due(self, fraction: float) -> bool:
        now = time.monotonic()
        if now - self._time < LINE_SECONDS or abs(fraction - self._fraction) < LINE_FRACTION:
            return False
        self._time, self._fraction = now, fraction
        return True


class ProgressLines:
    """Prints validations, and other work from time to time; a callback and a `Track` for `train`."""

    def __init__(self, num_steps: int, show: Callable[[str], None]) -> None:
        self._num_steps = num_steps
        self._show = show
        self._pace = LinePace()

    def __call__(self, record: dict[str, Any]) -> None:
        if "started_from" in record:
            self._show(describe_start(record))
        elif "validation" in record:
            self._show(describe_validation(record))
        elif self._pace.is_due(record["step"] / self._num_steps):
            self._show(f"{describe_step(record, self._num_steps)}; loss {record['loss']:.2f}")

    def track(self, sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
        for number, item in enumerate(sequence, 1):
            yield item
            if self._pace.is_due(number / (total or number)):
                self._show(f"{description}: {number:,}" + (f" of {total:,}" if total else ""))


def describe_start(record: dict[str, Any]) -> str:
    """What a run copied, such as "Started from runs/a/model: 40 labels copied, 2 added ([kor] 가), 0 dropped."."""
    if not record["has_head"]:
        return f"Started from {record['started_from']}: encoder copied, new head with {len(record['added'])} labels."
    added, dropped = (
        f"{len(record[word])} {word}{f' ({_shorten(record[word])})' if record[word] else ''}"
        for word in ("added", "dropped")
    )
    return f"Started from {record['started_from']}: {len(record['kept'])} labels copied, {added}, {dropped}."


def _shorten(labels: list[str], most: int = 10) -> str:
    return " ".join(labels[:most]) + (" …" if len(labels) > most else "")


def describe_step(record: dict[str, Any], num_steps: int) -> str:
    """Such as "step 400 of 1,600, 95 s left"."""
    step = record["step"]
    left = record["seconds"] / step * (num_steps - step) if step and is_number(record.get("seconds")) else None
    return f"step {step:,} of {num_steps:,}" + (f", {format_seconds(left)} left" if left else "")


def describe_validation(record: dict[str, Any]) -> str:
    best = ", best so far" if record["is_best"] else ""
    worst = f"worst {language_name(record['worst_language'])} {format_percent(record['worst_cer'])}% CER"
    return f"validation {record['validation']}: dev loss {record['dev_loss']:.2f}, {worst}{best}"


def format_seconds(seconds: float) -> str:
    """A duration, such as "95 s", "12 min" or "3 h 05 min".

    Example:
        >>> format_seconds(95), format_seconds(720), format_seconds(11_100)
        ('95 s', '12 min', '3 h 05 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def last_record(log: Path, num_bytes: int = 8192) -> dict[str, Any] | None:
    """The last complete record of a step or validation; None if there is none. Reads only the end of the file."""
    if not log.is_file():
        return None
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - num_bytes))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            record = parse_json(line.decode())
        except ValueError:
            continue
        if isinstance(record, dict) and is_number(record.get("step")):
            return record
    return None
