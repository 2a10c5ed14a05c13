"""Utterances in several groups: rows of shares, against group numbers and against definitions in double precision."""

import math
import random
from functools import partial

import pytest
import torch
from cases import case
from objective_runs import NUM_GROUPS, OBJECTIVES, WITH_CHARACTERS, assert_rows_equal_numbers, draw_batches
from oracle import (
    algorithm_1,
    algorithm_2,
    error_weighting,
    soft_algorithm_1,
    soft_algorithm_2,
    soft_error_weighting,
)
from torch._subclasses.fake_tensor import FakeTensorMode

import ctcdro

EVERY = (
    OBJECTIVES
    | WITH_CHARACTERS
    | {"static_weights": lambda num_groups: ctcdro.static_weights(num_groups, [*range(1, num_groups + 1)])}
)


def draw_rows(num_batches, seed=0):
    """Batches as lists of (loss, row of shares, characters); most rows have one group, others two or all."""
    rng = random.Random(seed)
    batches = []
    for _ in range(num_batches):
        batch = []
        for _ in range(rng.randint(1, 8)):
            numbers = rng.choice([[rng.randrange(NUM_GROUPS)], rng.sample(range(NUM_GROUPS), 2), range(NUM_GROUPS)])
            parts = [rng.random() + 0.01 if group in numbers else 0.0 for group in range(NUM_GROUPS)]
            row = [part / sum(parts) for part in parts]
            hardness = sum(share * group for group, share in enumerate(row))
            batch.append((rng.lognormvariate(3.0 + 0.4 * hardness, 0.5), row, rng.randint(5, 90)))
        batches.append(batch)
    return batches


def run_rows(objective, batches):
    """The weights, the value and the gradient after every batch."""
    for batch in batches:
        losses, rows, characters = zip(*batch, strict=True)
        leaf = torch.tensor(losses, dtype=torch.float64, requires_grad=True)
        value = objective(leaf, torch.tensor(rows, dtype=torch.float64), torch.tensor(characters))
        value.backward()
        yield objective.weights.tolist(), value.item(), leaf.grad.tolist()


def assert_same_run(found, expected):
    for (weights, value, gradient), (true_weights, true_value, true_gradient) in zip(found, expected, strict=True):
        assert weights == pytest.approx(true_weights, rel=2e-5, abs=1e-9)
        assert value == pytest.approx(true_value, rel=2e-5)
        assert gradient == pytest.approx(true_gradient, rel=2e-5)


@pytest.mark.parametrize("name", EVERY)
def test_rows_with_a_single_one_equal_group_numbers_bit_for_bit(name, path):
    assert_rows_equal_numbers(EVERY[name], 300 if path == "on the host" else 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_rows_with_a_single_one_equal_group_numbers_in_ten_thousand_batches(name):
    assert_rows_equal_numbers(EVERY[name], 10_000)


# Each objective with shares, and its definition in double precision.
DEFINITIONS = {
    "ctc_dro": (
        partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5),
        partial(soft_algorithm_2, exponent=lambda loss, q: 1e-3 * loss / (q + 0.5)),
    ),
    "ctc_dro, per character": (
        partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5, signal="loss_per_character"),
        partial(soft_algorithm_2, exponent=lambda loss, q: 1e-3 * loss / (q + 0.5), per_character=True),
    ),
    "ctc_dro_unsmoothed": (
        partial(ctcdro.ctc_dro_unsmoothed, step_size=1e-4),
        partial(soft_algorithm_2, exponent=lambda loss, q: 1e-4 * loss),
    ),
    "group_dro": (partial(ctcdro.group_dro, step_size=1e-4), partial(soft_algorithm_1, step_size=1e-4)),
    "error_weighted": (partial(ctcdro.error_weighted, power=1.5), partial(soft_error_weighting, power=1.5)),
    "erm": (ctcdro.erm, partial(soft_algorithm_2, exponent=lambda loss, q: 0.0)),
}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_weights_value_and_gradient_with_shares_follow_the_definition_in_double_precision(name):
    make, definition = DEFINITIONS[name]
    batches = draw_rows(300)
    objective = make(NUM_GROUPS)
    assert_same_run(run_rows(objective, batches), definition(batches, NUM_GROUPS))
    assert (objective.weights.max() > 0.26) == (name != "erm")


def test_the_definitions_with_shares_contain_those_with_groups():
    batches = draw_batches(100, mixed=True)
    sizes = [[round(loss * (1 + group) + 1) for loss, group in batch] for batch in batches]
    rows = [
        [
            (loss, [float(g == group) for g in range(NUM_GROUPS)], size)
            for (loss, group), size in zip(*both, strict=True)
        ]
        for both in zip(batches, sizes, strict=True)
    ]
    step = lambda loss, q: 1e-4 * loss  # noqa: E731
    for found, expected in (
        (soft_algorithm_1(rows, NUM_GROUPS, 1e-4), algorithm_1(batches, NUM_GROUPS, 1e-4)),
        (soft_algorithm_2(rows, NUM_GROUPS, step), algorithm_2(batches, NUM_GROUPS, step)),
        (
            soft_algorithm_2(rows, NUM_GROUPS, step, per_character=True),
            algorithm_2(batches, NUM_GROUPS, step, characters=sizes),
        ),
        (soft_error_weighting(rows, NUM_GROUPS, 1.5), error_weighting(batches, NUM_GROUPS, sizes, 1.5)),
    ):
        for (weights, value, _), (true_weights, true_value) in zip(found, expected, strict=True):
            assert [*weights, value] == pytest.approx([*true_weights, true_value])


def test_equal_shares_give_equal_weights_and_a_mixed_utterance_the_mean_weight():
    objective = ctcdro.static_weights(2, [1.0, 3.0])
    losses = torch.tensor([10.0, 10.0], requires_grad=True)
    objective(losses, torch.tensor([[0.5, 0.5], [0.2, 0.8]])).backward()
    torch.testing.assert_close(losses.grad, 2 * torch.tensor([0.5, 0.2 * 0.25 + 0.8 * 0.75]))


def test_a_group_with_small_shares_waits_for_one_batch_in_total():
    objective = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    for number in range(4):
        assert objective.weights.tolist() == [0.5, 0.5], number
        objective(torch.tensor([30.0, 10.0]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    # Four batches of 40 in which the second group has a quarter, all from the harder utterance: 120 against 60 / 2.
    assert objective.weights[1] > 0.5
    assert objective.pending.max() == 0


@pytest.mark.usefixtures("path")
def test_a_skipped_loss_with_shares_counts_for_the_largest_and_moves_nothing():
    for name, make in EVERY.items():
        with case(name):
            with_it, without_it = make(3), make(3)
            rows = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
            for _ in range(5):
                with_it(torch.tensor([8.0, math.inf]), rows, [4, 4])
                without_it(torch.tensor([8.0]), rows[:1], [4])
            assert torch.equal(with_it.weights, without_it.weights)
            assert torch.equal(with_it.pending, without_it.pending)
            assert with_it.num_skipped.tolist() == [5, 0, 0]


def test_no_step_with_shares_reads_a_value_from_the_device():
    for name, make in (OBJECTIVES | WITH_CHARACTERS).items():
        with case(name), FakeTensorMode():
            objective = make(NUM_GROUPS)
            losses = torch.rand(10, requires_grad=True)
            for _ in range(3):
                objective(losses * 1.0, torch.rand(10, NUM_GROUPS).softmax(1), torch.ones(10)).backward()


def test_a_state_saved_between_updates_continues_exactly_with_shares(tmp_path):
    batches = draw_rows(60)
    make = partial(ctcdro.ctc_dro, NUM_GROUPS, step_size=1e-3, smoothing=0.5, signal="loss_per_character")
    expected = list(run_rows(make(), batches))
    first, second = make(), make()
    list(run_rows(first, batches[:31]))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert list(run_rows(second, batches[31:])) == expected[31:]


def test_rows_that_are_not_on_the_simplex_are_rejected():
    for rows, message in (
        ([[0.5, 0.5], [0.6, 0.6]], r"sum to 1; utterance 1 has \[0\.6"),
        ([[1.5, -0.5], [1.0, 0.0]], "sum to 1; utterance 0 has"),
        ([[math.nan, 1.0], [1.0, 0.0]], "sum to 1; utterance 0 has"),
        ([[1, 0], [0, 1]], "must be floating-point shares; got torch.int64"),
        ([[0.2, 0.3, 0.5]] * 2, r"shape \(batch, 2\); got \(2,\) and \(2, 3\)"),
    ):
        for name, make in OBJECTIVES.items():
            with case((name, rows)), pytest.raises(ValueError, match=message):
                make(2)(torch.ones(2), torch.tensor(rows))


def test_rows_may_be_lists_and_are_ignored_in_evaluation():
    objective = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    assert objective(torch.ones(2), [[0.5, 0.5], [1.0, 0.0]]) == 2
    assert objective.eval()(torch.ones(2), [[0.5, 0.5], [9.0, 9.0]]) == 2
