"""The lower bound of the padding, against cases that can be solved by hand."""

import numpy as np
import pytest
from padding_bound import least_padded


def test_batches_that_need_no_padding_have_none():
    durations = np.repeat([5.0, 2.5], [20, 40])
    assert least_padded(durations, 10.0, tolerance=0.0) == pytest.approx(durations.sum())


def test_long_utterances_share_batches_if_short_ones_make_up_for_them():
    # 4, 4 and 2 s in each batch need 12 s. One more short utterance would exceed the target.
    assert least_padded(np.repeat([4.0, 2.0], [20, 10]), 10.0, tolerance=0.0) == pytest.approx(10 * 12.0)
    # Without the long ones, five short ones fill a batch.
    assert least_padded(np.repeat([4.0, 2.0], [20, 60]), 10.0, tolerance=0.0) == pytest.approx(10 * 12.0 + 10 * 10.0)


def test_a_larger_tolerance_never_needs_more_padding():
    durations = np.random.default_rng(0).uniform(1.0, 4.0, 200)
    bounds = [least_padded(durations, 10.0, tolerance) for tolerance in (0.0, 0.01, 0.05)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] >= durations.sum() - 1


def test_utterances_that_fit_no_batch_are_reported():
    with pytest.raises(ValueError, match=r"fit no batch within 2\.0% of 10 s"):
        least_padded(np.full(10, 7.0), 10.0, tolerance=0.02)
