"""Rates as tables and messages show them. Everywhere else rates are fractions."""

from __future__ import annotations

NO_VALUE = "–"


def format_percent(rate: float | None, deviation: float | None = None, *, signed: bool = False) -> str:
    """Formats a rate, or a difference of rates, in percent with one decimal, without the sign `%`.

    Args:
        rate: a fraction; None is shown as a dash.
        deviation: its standard deviation, if it is a mean.
        signed: whether positive numbers get a `+`.

    Example:
        >>> format_percent(0.6084), format_percent(0.6084, 0.021), format_percent(None)
        ('60.8', '60.8 ± 2.1', '–')
        >>> format_percent(0.04, signed=True)
        '+4.0'
    """
    if rate is None:
        return NO_VALUE
    shown = f"{100 * rate:{'+' if signed else ''}.1f}"
    return shown if deviation is None else f"{shown} ± {100 * deviation:.1f}"
