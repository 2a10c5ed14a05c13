"""Type checks of numeric arguments: Python and numpy numbers pass, `True` and `False` do not."""

from __future__ import annotations

from numbers import Integral, Real


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole_number(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
