"""Utterances in several groups: rows of shares, against group numbers and against definitions in double precision."""

import math
import random
from functools import partial

import pytest
import torch
from cases import case
from objective_runs import NUM_GROUPS, OBJECTIVES, WITH_CHARACTERS, draw_batches, tensors
from oracle import algorithm_1, algorithm_2
from torch._subclasses.fake_tensor import FakeTensorMode

import ctcdro

EVERY = OBJECTIVES | WITH_CHARACTERS


def one_hot(groups, num_groups=NUM_GROUPS):
    return torch.nn.functional.one_hot(groups, num_groups).float()


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


def soft_algorithm_2(batches, exponent):
    """CTC-DRO with shares. The utterances with the same largest group are one unit of duration, divided by shares."""
    q = [1 / NUM_GROUPS] * NUM_GROUPS
    losses_of, units_of = [0.0] * NUM_GROUPS, [0.0] * NUM_GROUPS
    for batch in batches:
        for largest in range(NUM_GROUPS):
            members = [(loss, row) for loss, row, _ in batch if row.index(max(row)) == largest]
            for g in range(NUM_GROUPS):
                losses_of[g] += math.fsum(row[g] * loss for loss, row in members)
                units_of[g] += math.fsum(row[g] for _, row in members) / max(1, len(members))
        if min(units_of) >= 0.999:
            means = [total / units for total, units in zip(losses_of, units_of, strict=True)]
            q = [q[g] * math.exp(exponent(means[g], q[g])) for g in range(NUM_GROUPS)]
            q = [x / sum(q) for x in q]
            losses_of, units_of = [0.0] * NUM_GROUPS, [0.0] * NUM_GROUPS
        gradient = [NUM_GROUPS * math.fsum(m * x for m, x in zip(row, q, strict=True)) for _, row, _ in batch]
        yield q, math.fsum(g * loss for g, (loss, _, _) in zip(gradient, batch, strict=True)), gradient


def soft_algorithm_1(batches, step_size):
    """Group DRO with shares: the mean loss of a group is weighted by shares."""
    q = [1 / NUM_GROUPS] * NUM_GROUPS
    for batch in batches:
        mass = [math.fsum(row[g] for _, row, _ in batch) for g in range(NUM_GROUPS)]
        means = [
            math.fsum(row[g] * loss for loss, row, _ in batch) / mass[g] if mass[g] else 0.0 for g in range(NUM_GROUPS)
        ]
        q = [x * math.exp(step_size * mean) for x, mean in zip(q, means, strict=True)]
        q = [x / sum(q) for x in q]
        gradient = [sum(q[g] * row[g] / mass[g] for g in range(NUM_GROUPS) if row[g]) for _, row, _ in batch]
        yield q, sum(x * mean for x, mean in zip(q, means, strict=True)), gradient


def assert_same_run(found, expected):
    for (weights, value, gradient), (true_weights, true_value, true_gradient) in zip(found, expected, strict=True):
        assert weights == pytest.approx(true_weights, rel=2e-5, abs=1e-9)
        assert value == pytest.approx(true_value, rel=2e-5)
        assert gradient == pytest.approx(true_gradient, rel=2e-5)


@pytest.mark.parametrize("name", EVERY)
def test_rows_with_a_single_one_equal_group_numbers_bit_for_bit(name, path):
    by_number, by_row = EVERY[name](NUM_GROUPS), EVERY[name](NUM_GROUPS)
    num_batches = 300 if path == "on the host" else 200
    for number, batch in enumerate(draw_batches(num_batches, mixed=True)):
        losses, groups, characters = tensors(batch)
        losses[number % len(losses)] = math.inf if number % 7 == 0 and len(losses) > 1 else losses[0]
        leaves = [losses.clone().requires_grad_() for _ in range(2)]
        expected, value = by_number(leaves[0], groups, characters), by_row(leaves[1], one_hot(groups), characters)
        expected.backward()
        value.backward()
        assert torch.equal(value, expected)
        assert torch.equal(leaves[1].grad, leaves[0].grad)
        states = by_number.state_dict(), by_row.state_dict()
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.usefixtures("path")
def test_ctc_dro_with_shares_follows_its_definition_in_double_precision():
    batches = draw_rows(400)
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5)
    assert_same_run(run_rows(objective, batches), soft_algorithm_2(batches, lambda loss, q: 1e-3 * loss / (q + 0.5)))
    assert objective.weights.max() > 0.28


@pytest.mark.usefixtures("path")
def test_group_dro_with_shares_follows_its_definition_in_double_precision():
    batches = draw_rows(300)
    objective = ctcdro.group_dro(NUM_GROUPS, step_size=1e-4)
    assert_same_run(run_rows(objective, batches), soft_algorithm_1(batches, 1e-4))


def test_the_definitions_with_shares_contain_those_of_the_paper():
    batches = draw_batches(100, mixed=True)
    rows = [[(loss, [float(g == group) for g in range(NUM_GROUPS)], 1) for loss, group in batch] for batch in batches]
    for found, expected in (
        (soft_algorithm_1(rows, 1e-4), algorithm_1(batches, NUM_GROUPS, 1e-4)),
        (soft_algorithm_2(rows, lambda loss, q: 1e-4 * loss), algorithm_2(batches, NUM_GROUPS, lambda x, q: 1e-4 * x)),
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
    for name, make in EVERY.items():
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
