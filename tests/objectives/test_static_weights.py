"""Static weights: normalized, constant, shares of the batches, and errors that name the groups."""

import pytest
import torch
from objective_runs import draw_batches, run

import ctcdro


def test_weights_are_normalized_and_constant():
    named = ctcdro.static_weights(4, {"d": 4, "a": 1, "c": 3, "b": 2}, group_names=["a", "b", "c", "d"])
    for objective in (named, ctcdro.static_weights(4, [1.0, 2.0, 3.0, 4.0])):
        list(run(objective, draw_batches(50, mixed=True)))
        torch.testing.assert_close(objective.weights, torch.tensor([0.1, 0.2, 0.3, 0.4]))


def test_weights_are_shares_of_the_batches():
    objective = ctcdro.static_weights(2, [1, 3])
    groups = [0] * 40 + [1] * 40
    sampler = ctcdro.AdaptiveBatchSampler([5.0] * 80, groups, objective, batch_duration=10.0)
    assert [sum(groups[batch[0]] == group for batch in sampler) for group in (0, 1)] == [10, 30]
    assert objective(torch.tensor([3.0, 4.0]), [0, 1]) == 7


def test_weights_that_do_not_fit_are_rejected():
    for weights, message in (
        ([1, 0], r"`weights` must be positive numbers; got \[1, 0\]"),
        ([1], "`weights` must be 2 finite, non-negative numbers, one per group"),
        ({"ces": 1}, "`weights` must have the weight of every group by name; cmn missing"),
        ({"ces": 1, "cmn": 2, "kor": 3}, "`weights` has groups that are not in `group_names`: kor"),
    ):
        with pytest.raises(ValueError, match=message):
            ctcdro.static_weights(2, weights, group_names=["ces", "cmn"])
