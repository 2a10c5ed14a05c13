"""Formats rates for tables and messages. Everywhere else rates are fractions."""

from __future__ import annotations

from collections.abc import Sequence

NO_VALUE = "–"


def format_tied(languages: Sequence[str]) -> str:
    """Languages with the same rate, or their number if there are more than three."""
    return ", ".join(languages) if len(languages) <= 3 else f"{len(languages)} languages tied"


def format_percent(rate: float | None, *, signed: bool = False) -> str:
    """A fraction in percent, with one decimal and without the sign `%`."""
    return NO_VALUE if rate is None else f"{100 * rate:{'+' if signed else ''}.1f}"
