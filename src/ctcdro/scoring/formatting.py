"""Formats rates for tables and messages. Everywhere else rates are fractions."""

from __future__ import annotations

NO_VALUE = "–"


def format_percent(rate: float | None, *, signed: bool = False) -> str:
    """A fraction in percent, with one decimal and without the sign `%`."""
    return NO_VALUE if rate is None else f"{100 * rate:{'+' if signed else ''}.1f}"
