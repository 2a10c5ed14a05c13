"""Checks of text and durations in JSON records. Errors name the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

MAX_SECONDS = 1e9
"""Upper bound on durations, so that their sums and squares stay finite."""


def check_text(name: str, value: Any, *, may_be_empty: bool = False) -> None:
    """Rejects other types, and text that UTF-8 cannot represent, such as file names in another encoding."""
    if not isinstance(value, str) or not (value or may_be_empty):
        expected = "text" if may_be_empty else "non-empty text"
        raise ValueError(f"`{name}` must be {expected}, got {shorten(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"`{name}` must be text that UTF-8 can represent, got {shorten(value)}") from error


def check_seconds(name: str, value: Any, *, may_be_zero: bool = False) -> float:
    try:
        seconds = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        seconds = math.inf
    if not (0 < seconds < MAX_SECONDS or (may_be_zero and seconds == 0)):
        expected = "non-negative" if may_be_zero else "positive"
        raise ValueError(f"`{name}` must be a {expected} number of seconds below {MAX_SECONDS:g}, got {shorten(value)}")
    return seconds


def optional_text(record: Mapping[str, Any], name: str) -> str | None:
    """Returns None if the field is missing or empty."""
    value = record.get(name)
    if value is None or value == "":
        return None
    check_text(name, value)
    return str(value)


def optional_seconds(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    return None if value is None else check_seconds(name, value, may_be_zero=True)


def shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
