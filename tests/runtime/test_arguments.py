"""Which arguments count as numbers."""

import numpy as np

from ctcdro.runtime.arguments import is_number, is_whole_number


def test_numbers_of_python_and_numpy_count_and_booleans_do_not():
    assert is_number(0.5)
    assert is_number(np.float32(0.5))
    assert is_whole_number(np.int64(5))
    assert not any(map(is_number, (True, "0.5", None)))
    assert not any(map(is_whole_number, (5.0, True, "5")))
