"""The guard of error-weighted training: no effect within the budget, bounded beyond it, and part of the state."""

import random

import pytest
import torch
from objective_runs import NUM_GROUPS, draw_batches, run

import ctcdro

NAMES = ["ces", "cmn", "kor", "spa"]
BASELINE = [0.4, 0.3, 0.2, 0.1]
WITHIN = [0.42, 0.1, 0.2, 0.104]
OVER = [0.2, 0.1, 0.3, 0.102]  # kor
SIGNALS = ["loss_per_character", "error_rate"]


def make(signal, **options):
    objective = ctcdro.error_weighted(NUM_GROUPS, signal=signal, **options)
    if signal == "error_rate":
        objective.update_error_rates([0.5, 0.2, 0.1, 0.05])
    return objective


def trajectory(objective, batches):
    return [weights.tolist() for weights, _ in run(objective, batches)]


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_guard_within_its_budgets_changes_no_bit_of_the_weights(signal):
    batches = draw_batches(200, mixed=False)
    guarded = make(signal)
    guarded.update_budgets(WITHIN, BASELINE)
    assert 0 < guarded.budget_use.min() < guarded.budget_use.max() <= 1
    assert trajectory(guarded, batches) == trajectory(make(signal), batches)


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_group_over_its_budget_counts_like_the_worst_until_it_is_back(signal):
    batches = draw_batches(400, mixed=False)
    expected = trajectory(make(signal), batches)[-1]
    guarded = make(signal)
    guarded.update_budgets(OVER, BASELINE)
    weights = trajectory(guarded, batches[:200])[-1]
    assert weights[2] == max(weights) > expected[2]
    guarded.update_budgets(WITHIN, BASELINE)
    assert trajectory(guarded, batches[200:])[-1] == expected


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_state_with_budgets_continues_exactly(signal, tmp_path):
    batches = draw_batches(120, mixed=False)
    whole = make(signal)
    whole.update_budgets(OVER, BASELINE)
    expected = trajectory(whole, batches)
    first = make(signal)
    first.update_budgets(OVER, BASELINE)
    trajectory(first, batches[:50])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = ctcdro.error_weighted(NUM_GROUPS, signal=signal)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert trajectory(second, batches[50:]) == expected[50:]


def test_weights_are_those_of_the_definition_in_plain_python():
    rng = random.Random(0)
    for power in (0.0, 1.0, 1.5, 3.0):
        for _ in range(50):
            rates, own, baseline = ([rng.uniform(0, 1.2) for _ in range(5)] for _ in range(3))
            limit = rng.uniform(0, 0.5)
            used = [min(2.0, d / ((1 + limit) * b)) for d, b in zip(own, baseline, strict=True)]
            clipped = [min(1.0, rate) for rate in rates]
            guarded = [max(e / max(clipped), u if u > 1 else 0) for e, u in zip(clipped, used, strict=True)]
            shares = [max(u, 0.05 * max(guarded)) ** power for u in guarded]
            use = ctcdro.budget_use(torch.tensor(own), torch.tensor(baseline), max_relative_loss=limit)
            weights = ctcdro.proportional_weights(torch.tensor(rates), power=power, budget_use=use)
            torch.testing.assert_close(weights, torch.tensor([share / sum(shares) for share in shares]))


def test_a_weight_rises_with_the_error_rate_of_its_group_and_is_bounded():
    weights = []
    for rate in (0.0, 0.1, 0.2, 0.21, 0.22, 0.3, 0.6, 1.0, 50.0):
        objective = make("error_rate")
        objective.update_budgets([0.4, 0.3, rate, 0.1], BASELINE)
        weights.append(objective.weights)
    of_group = [one[2].item() for one in weights]
    assert of_group == sorted(of_group)
    assert max((one.max() / one.min()).item() for one in weights) <= 20**1.5 + 1e-3
    torch.testing.assert_close(weights[-1][2] / weights[-1][0], torch.tensor(2.0**1.5))


def test_weights_do_not_depend_on_the_order_of_groups():
    order = [2, 0, 3, 1]
    objective = make("error_rate")
    objective.update_budgets(OVER, BASELINE)
    renumbered = ctcdro.error_weighted(NUM_GROUPS, signal="error_rate", group_names=[NAMES[i] for i in order])
    renumbered.update_error_rates(dict(zip(NAMES, [0.5, 0.2, 0.1, 0.05], strict=True)))
    renumbered.update_budgets(dict(zip(NAMES, OVER, strict=True)), dict(zip(NAMES, BASELINE, strict=True)))
    torch.testing.assert_close(renumbered.weights, objective.weights[order])


def test_any_error_uses_up_the_budget_of_a_group_without_errors_in_the_baseline():
    objective = ctcdro.error_weighted(3)
    objective.update_budgets([0.0, 0.001, 0.2], [0.0, 0.0, 0.4])
    torch.testing.assert_close(objective.budget_use, torch.tensor([0.0, 2.0, 0.2 / 0.42]))


def test_budgets_that_do_not_fit_are_rejected_and_change_nothing():
    objective = ctcdro.error_weighted(2, group_names=["ces", "cmn"])
    for rates, baseline, message in (
        ([0.5], [0.5, 0.4], r"`rates` must be 2 finite, non-negative numbers, one per group; got \[0\.5\]"),
        ([0.5, 0.4], [0.5, float("nan")], "`baseline_rates` must be 2 finite, non-negative numbers"),
        ([0.5, 0.4], {"ces": 0.5}, "`baseline_rates` must have the error rate of every group by name; cmn missing"),
    ):
        with pytest.raises(ValueError, match=message):
            objective.update_budgets(rates, baseline)
    assert objective.budget_use.tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"weights of ERM have no guard\. Remove this call, or use"):
        ctcdro.erm(2).update_budgets([0.5, 0.4], [0.5, 0.4])
    with pytest.raises(ValueError, match="`max_relative_loss` must be a finite, non-negative number; got -1"):
        ctcdro.error_weighted(2, max_relative_loss=-1)
