"""Which arguments count as numbers: Python's and numpy's do, `True` and `False` do not."""

from __future__ import annotations

from numbers import Integral, Real


def is_number(value: object) -> bool:
    """
    Example:
        >>> import numpy as np
        >>> is_number(np.float32(0.5)), is_number(True), is_number("0.5")
        (True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole_number(value: object) -> bool:
    """
    Example:
        >>> import numpy as np
        >>> is_whole_number(np.int64(5)), is_whole_number(5.0), is_whole_number(True)
        (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)
