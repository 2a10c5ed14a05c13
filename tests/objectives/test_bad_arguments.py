"""Arguments: every form of groups and numbers is accepted, and errors name the argument and what was found."""

import math

import numpy as np
import pytest
import torch
from cases import case
from objective_runs import OBJECTIVES

import ctcdro


def test_groups_may_be_lists_arrays_or_names():
    for name, make in OBJECTIVES.items():
        with case(name):
            losses = torch.tensor([5.0, 4.0, 2.0])
            expected = make(3)(losses, torch.tensor([2, 0, 1]))
            for groups in (
                [2, 0, 1],
                np.array([2, 0, 1], dtype=np.uint16),
                ["tam", "ces", "cmn"],
                np.array(["tam", "ces", "cmn"]),
            ):
                assert make(3, group_names=["ces", "cmn", "tam"])(losses, groups) == expected


def test_unknown_names_are_rejected_in_training_only():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(2, group_names=["ces", "cmn"])
            with pytest.raises(ValueError, match="`groups` contains 'deu', which is not in `group_names`: ces, cmn"):
                objective(torch.ones(2), ["ces", "deu"])
            with pytest.raises(
                ValueError, match=r"`groups` contains names \('ces', ...\).*Create it with `group_names`"
            ):
                make(2)(torch.ones(2), ["ces", "deu"])
            assert objective.eval()(torch.ones(2), ["ces", "deu"]) == 2


def test_numbers_of_numpy_are_accepted_and_give_the_same_weights():
    expected = ctcdro.ctc_dro(2, step_size=0.125, smoothing=0.5)
    objective = ctcdro.ctc_dro(np.int64(2), step_size=np.float32(0.125), smoothing=np.float64(0.5))
    for one in (expected, objective):
        one(torch.tensor([5.0, 4.0]), [0, 1])
    assert torch.equal(objective.weights, expected.weights)
    assert type(objective.num_groups) is int


def test_losses_that_are_whole_numbers_are_rejected():
    for name, make in OBJECTIVES.items():
        with case(name), pytest.raises(ValueError, match=r"must be floating-point numbers; got torch\.int64"):
            make(2)(torch.tensor([20, 1]), torch.tensor([0, 1]))


def test_group_dro_has_no_reduction():
    with pytest.raises(TypeError, match="reduction"):
        ctcdro.group_dro(2, step_size=1e-3, reduction="mean")


@pytest.mark.usefixtures("path")
def test_groups_out_of_range_are_named():
    for name, make in OBJECTIVES.items():
        with case(name):
            # On other devices the index is checked by torch, in its own words.
            for group in (-1, 2, 100):
                with pytest.raises(
                    (ValueError, IndexError, RuntimeError),
                    match=rf"must be from 0 to 1; got .*{group}|out of (bounds|range)",
                ):
                    make(2)(torch.tensor([1.0, 2.0]), torch.tensor([1, group]))


def test_shapes_that_do_not_fit_are_rejected():
    for name, make in OBJECTIVES.items():
        with case(name):
            for shape in ((), (1,), (3,), (2, 1)):
                with pytest.raises(ValueError, match=r"`losses` and `groups`.*\(2,\)"):
                    make(2)(torch.ones(2), torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize(("characters", "found"), [(None, "none"), ([5], "1 for 2 losses")])
def test_an_objective_that_needs_characters_asks_for_them(characters, found):
    objective = ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, signal="loss_per_character")
    with pytest.raises(ValueError, match=f"`num_characters` must have one entry per utterance, .*; got {found}"):
        objective(torch.ones(2), [0, 1], characters)
    assert objective.eval()(torch.ones(2), [0, 1]) == 2


def test_error_rates_that_do_not_fit_are_rejected():
    for rates, message in (
        ([0.5], r"`rates` must be 2 finite, non-negative numbers, one per group; got \[0\.5\]"),
        ([0.5, math.nan], "`rates` must be 2 finite, non-negative numbers"),
        ([0.5, -0.1], "`rates` must be 2 finite, non-negative numbers"),
        ({"ces": 0.5}, "`rates` must have the error rate of every group by name; cmn missing"),
    ):
        objective = ctcdro.error_weighted(2, signal="error_rate", group_names=["ces", "cmn"])
        with case(rates), pytest.raises(ValueError, match=message):
            objective.update_error_rates(rates)
        assert objective.weights.tolist() == [0.5, 0.5]


def test_error_rates_are_rejected_by_objectives_that_do_not_follow_them():
    for objective in (ctcdro.erm(2), ctcdro.error_weighted(2)):
        with pytest.raises(ValueError, match=r'do not follow error rates.*signal="error_rate"'):
            objective.update_error_rates([0.5, 0.4])
    nameless = ctcdro.error_weighted(2, signal="error_rate")
    with pytest.raises(ValueError, match="this objective has no group names"):
        nameless.update_error_rates({"ces": 0.5, "cmn": 0.4})


def test_groups_that_are_not_integers_are_rejected():
    for name, make in OBJECTIVES.items():
        with case(name):
            for groups in (torch.zeros(2), torch.tensor([True, False]), [False, True]):
                with pytest.raises(ValueError, match=r"`groups` must be integers.*torch\.(float32|bool)"):
                    make(2)(torch.ones(2), groups)


BAD_ARGUMENTS = [
    (lambda: ctcdro.erm(0), "`num_groups` must be a positive integer; got 0"),
    (lambda: ctcdro.erm(2.0), r"`num_groups` must be a positive integer; got 2\.0"),
    (lambda: ctcdro.erm(True), "`num_groups` must be a positive integer; got True"),
    (lambda: ctcdro.group_dro(2, step_size=True), "`step_size` must be a finite, non-negative number; got True"),
    (lambda: ctcdro.erm(2, group_names=[1, 2]), "`group_names` must be 2 different names"),
    (
        lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing="0.1"),
        "`smoothing` must be a finite, non-negative number.*'0.1'",
    ),
    (
        lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=math.inf),
        "`smoothing` must be a finite, non-negative number.*inf",
    ),
    (lambda: ctcdro.error_weighted(2, power=-1), "`power` must be a finite, non-negative number; got -1"),
    (
        lambda: ctcdro.error_weighted(2, signal="loss_per_second"),
        "`signal` must be loss_per_character or error_rate; got 'loss_per_second'",
    ),
    (lambda: ctcdro.erm(2, reduction="none"), "`reduction` must be .*'none'"),
    (lambda: ctcdro.erm(2, group_names=["a"]), "`group_names` must be 2 different names.*'a'"),
    (lambda: ctcdro.erm(2, group_names=["a", "a"]), "`group_names` must be 2 different names"),
    (lambda: ctcdro.group_dro(2, step_size=-1.0), r"`step_size` must be a finite, non-negative number; got -1\.0"),
    (
        lambda: ctcdro.ctc_dro(2, step_size=math.nan, smoothing=0.1),
        "`step_size` must be a finite, non-negative number; got nan",
    ),
    (
        lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=-0.1),
        r"`smoothing` must be a finite, non-negative number; got -0\.1",
    ),
    (lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, reduction="none"), "`reduction` must be"),
    (
        lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, signal="loss"),
        "`signal` must be one of loss_per_second, loss_per_character; got 'loss'",
    ),
    (
        lambda: ctcdro.ctc_dro_unsmoothed(2, step_size=1e-3, warmup_batches=-1),
        "`warmup_batches` must be a non-negative integer; got -1",
    ),
]


def test_arguments_that_make_no_sense_are_named():
    for call, message in BAD_ARGUMENTS:
        with case(message), pytest.raises(ValueError, match=message):
            call()
