"""The update rules: on the simplex, at their fixed points, at their limits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import maximizer

from ctcdro import exponential_update, smoothed_update

losses_lists = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20)


def iterate(losses: list[float], smoothing: float, step_size: float, num_steps: int) -> torch.Tensor:
    weights = torch.full((len(losses),), 1 / len(losses), dtype=torch.float64)
    for _ in range(num_steps):
        weights = smoothed_update(
            weights, torch.tensor(losses, dtype=torch.float64), step_size=step_size, smoothing=smoothing
        )
    return weights


def assert_on_the_simplex(weights: torch.Tensor) -> None:
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-5)


@given(losses_lists, st.floats(0.0, 1.0), st.floats(0.0, 10.0), st.integers(1, 5))
def test_smoothed_update_stays_on_the_simplex(losses, step_size, smoothing, num_steps):
    weights = torch.full((len(losses),), 1 / len(losses))
    for _ in range(num_steps):
        weights = smoothed_update(weights, torch.tensor(losses), step_size=step_size, smoothing=smoothing)
        assert_on_the_simplex(weights)


@given(losses_lists, st.floats(0.0, 1.0))
def test_exponential_update_stays_on_the_simplex(losses, step_size):
    weights = exponential_update(torch.full((len(losses),), 1 / len(losses)), torch.tensor(losses), step_size=step_size)
    assert_on_the_simplex(weights)


@pytest.mark.parametrize(
    ("smoothing", "dtype"), [(0.0, torch.float32), (1e-30, torch.float32), (0.1, torch.float64), (1.0, torch.float32)]
)
def test_huge_losses_leave_finite_weights(smoothing, dtype):
    weights = torch.full((4,), 0.25, dtype=dtype)
    for losses in ([1e6, 1.0, 0.0, 9e5], [0.0, 1e6, 1e6, 1e6], [1e30, 1e30, 0.0, 1.0], [-1e6, 1e6, 3.0, 0.0]) * 5:
        weights = smoothed_update(weights, torch.tensor(losses, dtype=dtype), step_size=1e-1, smoothing=smoothing)
        assert_on_the_simplex(weights)


def test_update_matches_the_formula():
    weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    losses = torch.tensor([300.0, 100.0, 200.0], dtype=torch.float64)
    raw = [q * math.exp(1e-3 * loss / (q + 0.5)) for q, loss in zip(weights.tolist(), losses.tolist(), strict=True)]
    expected = torch.tensor([value / sum(raw) for value in raw], dtype=torch.float64)
    torch.testing.assert_close(smoothed_update(weights, losses, step_size=1e-3, smoothing=0.5), expected)


@given(st.permutations([5.0, 1.0, 8.0, 3.0]), st.floats(0.0, 2.0))
def test_a_higher_loss_gets_a_higher_weight_from_uniform(losses, smoothing):
    weights = smoothed_update(torch.full((4,), 0.25), torch.tensor(losses), step_size=0.1, smoothing=smoothing)
    assert weights.argsort().tolist() == torch.tensor(losses).argsort().tolist()


def test_equal_losses_draw_weights_together():
    weights = torch.tensor([0.7, 0.2, 0.1])
    spreads = []
    for _ in range(1000):
        weights = smoothed_update(weights, torch.full((3,), 100.0), step_size=1e-4, smoothing=0.5)
        spreads.append((weights.max() - weights.min()).item())
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.1 * spreads[0]


def test_equal_losses_leave_the_weights_of_group_dro_alone():
    weights = torch.tensor([0.7, 0.2, 0.1])
    torch.testing.assert_close(exponential_update(weights, torch.full((3,), 100.0), step_size=1e-2), weights)


@pytest.mark.parametrize("smoothing", [0.05, 0.1, 0.5])
def test_fixed_point_is_the_closed_form_where_that_is_positive(smoothing):
    losses = [100.0, 120.0, 90.0, 110.0]
    closed_form = [loss * (1 + len(losses) * smoothing) / sum(losses) - smoothing for loss in losses]
    assert min(closed_form) > 0
    weights = iterate(losses, smoothing, step_size=1e-4, num_steps=20_000)
    assert weights.tolist() == pytest.approx(closed_form, abs=1e-6)
    assert closed_form == pytest.approx(maximizer(losses, smoothing), abs=1e-6)


@pytest.mark.parametrize("smoothing", [0.5, 1.0])
def test_weights_go_to_the_boundary_where_the_closed_form_is_negative(smoothing):
    losses = [200.0, 20.0, 190.0, 60.0]
    closed_form = [loss * (1 + len(losses) * smoothing) / sum(losses) - smoothing for loss in losses]
    assert min(closed_form) < 0
    weights = iterate(losses, smoothing, step_size=1e-3, num_steps=20_000)
    expected = maximizer(losses, smoothing)
    assert expected.count(0.0) >= 1
    assert weights.tolist() == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.floats(0.0, 500.0), min_size=2, max_size=8))
def test_large_smoothing_with_the_step_size_scaled_is_group_dro(losses):
    losses = torch.tensor(losses, dtype=torch.float64)
    weights = torch.softmax(torch.arange(len(losses), dtype=torch.float64), 0)
    smoothed = smoothed_update(weights, losses, step_size=1e-3 * 1e9, smoothing=1e9)
    torch.testing.assert_close(smoothed, exponential_update(weights, losses, step_size=1e-3), rtol=1e-6, atol=1e-12)


def test_smoothing_zero_is_the_limit_of_small_smoothing():
    weights, losses = torch.tensor([0.6, 0.4]), torch.tensor([30.0, 20.0])
    nearly = smoothed_update(weights, losses, step_size=1e-2, smoothing=1e-9)
    torch.testing.assert_close(smoothed_update(weights, losses, step_size=1e-2, smoothing=0.0), nearly)


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"`weights` and `losses`.*\(2,\) and \(3,\)"):
        smoothed_update(torch.ones(2) / 2, torch.ones(3), step_size=1e-3, smoothing=0.1)
