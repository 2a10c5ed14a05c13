"""The objectives against the paper's algorithms in double precision, on the host and on other devices."""

import pytest
import torch
from objective_runs import NUM_GROUPS, draw_batches, run, tensors
from oracle import algorithm_1, algorithm_2, error_weighting

import ctcdro

pytestmark = pytest.mark.usefixtures("path")


def assert_same_run(run, expected):
    num_batches = 0
    for (weights, loss), (expected_weights, expected_loss) in zip(run, expected, strict=True):
        assert weights.tolist() == pytest.approx(expected_weights, rel=2e-5, abs=1e-9)
        assert loss.item() == pytest.approx(expected_loss, rel=2e-5)
        num_batches += 1
    assert num_batches >= 300


@pytest.mark.parametrize(
    ("step_size", "smoothing", "mixed"), [(1e-3, 0.0, True), (1e-3, 0.5, False), (1e-3, 1.0, True), (1e-4, 0.1, False)]
)
def test_ctc_dro_follows_algorithm_2(step_size, smoothing, mixed):
    batches = draw_batches(400, mixed=mixed)
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=step_size, smoothing=smoothing)
    expected = algorithm_2(batches, NUM_GROUPS, lambda loss, q: step_size * loss / (q + smoothing))
    assert_same_run(run(objective, batches), expected)
    assert objective.weights.max() > 0.3


def test_the_ablation_follows_algorithm_2_with_the_step_of_algorithm_1():
    batches = draw_batches(400, mixed=True)
    objective = ctcdro.ctc_dro_unsmoothed(NUM_GROUPS, step_size=1e-4)
    assert_same_run(run(objective, batches), algorithm_2(batches, NUM_GROUPS, lambda loss, q: 1e-4 * loss))


def test_group_dro_follows_algorithm_1():
    batches = draw_batches(400, mixed=True)
    objective = ctcdro.group_dro(NUM_GROUPS, step_size=1e-4)
    assert_same_run(run(objective, batches), algorithm_1(batches, NUM_GROUPS, step_size=1e-4))


def test_weights_that_follow_the_loss_per_character_see_characters_and_gradients_do_not():
    batches = draw_batches(400, mixed=True)
    sizes = [[int(number) for number in tensors(batch)[2]] for batch in batches]
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5, signal="loss_per_character")
    expected = algorithm_2(batches, NUM_GROUPS, lambda loss, q: 1e-3 * loss / (q + 0.5), characters=sizes)
    assert_same_run(run(objective, batches), expected)
    by_second = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5)
    list(run(by_second, batches))
    assert objective.weights.argmax() != by_second.weights.argmax()


@pytest.mark.parametrize(("power", "mixed"), [(0.0, True), (1.0, False), (2.0, True)])
def test_error_weighted_follows_the_estimated_error_rates(power, mixed):
    batches = draw_batches(400, mixed=mixed)
    sizes = [[int(number) for number in tensors(batch)[2]] for batch in batches]
    objective = ctcdro.error_weighted(NUM_GROUPS, power=power)
    assert_same_run(run(objective, batches), error_weighting(batches, NUM_GROUPS, sizes, power))
    assert (objective.weights.max() > 0.3) == (power > 0)


def test_error_rates_set_the_weights_until_the_next_ones():
    objective = ctcdro.error_weighted(3, power=2.0, signal="error_rate", group_names=["ces", "cmn", "kor"])
    assert objective.needs_error_rates
    losses, groups = torch.tensor([10.0, 20.0]), torch.tensor([1, 2])
    torch.testing.assert_close(objective(losses, groups), losses.sum())
    for rates in ([0.2, 0.4, 1.6], {"kor": 1.6, "ces": 0.2, "cmn": 0.4, "other": 0.9}):  # above 1 counts as 1
        objective.update_error_rates(rates)
        expected = torch.tensor([0.04, 0.16, 1.0]) / 1.2
        torch.testing.assert_close(objective.weights, expected)
        torch.testing.assert_close(objective(losses, groups), 3 * (expected[1] * 10 + expected[2] * 20))
    objective.update_error_rates([0.0, 0.0, 0.0])
    torch.testing.assert_close(objective.weights, torch.full((3,), 1 / 3))


def test_one_number_of_characters_for_all_makes_both_signals_one():
    batches = draw_batches(200, mixed=False)
    make = {
        signal: ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5, signal=signal)
        for signal in ("loss_per_second", "loss_per_character")
    }
    for batch in batches:
        losses, groups, _ = tensors(batch)
        for objective in make.values():
            objective(losses.mean(0, keepdim=True), groups[:1], [50])
        torch.testing.assert_close(make["loss_per_second"].weights, make["loss_per_character"].weights)


def test_weights_stay_even_during_warm_up_and_start_without_its_losses():
    batches = draw_batches(200, mixed=False)
    late = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5, warmup_batches=80)
    fresh = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5)
    for number, batch in enumerate(batches):
        losses, groups, _ = tensors(batch)
        loss = late(losses, groups)
        if number < 80:
            torch.testing.assert_close(loss, losses.sum())
            assert late.weights.tolist() == pytest.approx([0.25] * 4)
        else:
            assert torch.equal(loss, fresh(losses, groups))
            assert torch.equal(late.weights, fresh.weights)
    assert late.weights.max() > 0.3


def test_the_mean_reduction_divides_the_loss_and_leaves_the_weights():
    batches = draw_batches(100, mixed=True)
    sums = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5)
    means = ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-3, smoothing=0.5, reduction="mean")
    for batch, (weights, loss), (mean_weights, mean_loss) in zip(
        batches, run(sums, batches), run(means, batches), strict=True
    ):
        assert torch.equal(weights, mean_weights)
        assert mean_loss.item() == pytest.approx(loss.item() / len(batch), rel=1e-6)


def test_uniform_weights_make_ctc_dro_the_plain_sum():
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=0.0, smoothing=0.5)
    for batch in draw_batches(50, mixed=True):
        losses, groups, _ = tensors(batch)
        torch.testing.assert_close(objective(losses, groups), losses.sum())


def test_gradients_are_the_weights_and_none_flow_through_the_update():
    objective = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    losses = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
    groups = torch.tensor([0, 1, 1])
    objective(losses, groups).backward()
    assert not torch.equal(objective.weights, torch.tensor([0.5, 0.5]))  # this batch moved them
    torch.testing.assert_close(losses.grad, 2 * objective.weights[groups])


def test_gradients_of_group_dro_are_the_weights_over_the_number_of_losses():
    objective = ctcdro.group_dro(2, step_size=1e-2)
    losses = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
    objective(losses, torch.tensor([0, 1, 1])).backward()
    expected = objective.weights[torch.tensor([0, 1, 1])] / torch.tensor([1.0, 2.0, 2.0])
    torch.testing.assert_close(losses.grad, expected)


def test_gradient_accumulation_survives_an_update_in_between():
    objective = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    losses = torch.tensor([3.0, 4.0], requires_grad=True)
    first = objective(losses[:1], torch.tensor([0]))
    second = objective(losses[1:], torch.tensor([1]))
    (first + second).backward()
    torch.testing.assert_close(losses.grad, torch.stack([torch.tensor(1.0), 2 * objective.weights[1]]))
