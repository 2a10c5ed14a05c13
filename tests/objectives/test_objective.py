"""Guarantees of every objective, on the host and on other devices."""

import copy
import math
import warnings
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from cases import case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from objective_runs import NUM_GROUPS, OBJECTIVES, WITH_CHARACTERS, draw_batches, run, tensors
from torch._subclasses.fake_tensor import FakeTensorMode

import ctcdro

pytestmark = pytest.mark.usefixtures("path")

# Every objective on the host. On the device, one that updates its weights after each batch and one that does in rounds.
ON_HOST = [(name, "on the host") for name in OBJECTIVES]
ON_DEVICE = [(name, "on the device") for name in ("group_dro", "ctc_dro")]
every_objective = pytest.mark.parametrize(("make", "path"), ON_HOST + ON_DEVICE, indirect=True)
ON_HOST_WITH_CHARACTERS = [*ON_HOST, *((name, "on the host") for name in WITH_CHARACTERS)]
every_objective_with_characters = pytest.mark.parametrize(
    ("make_any", "path"),
    [*ON_HOST_WITH_CHARACTERS, *ON_DEVICE, *((name, "on the device") for name in WITH_CHARACTERS)],
    indirect=True,
)


@every_objective
def test_weights_stay_on_the_simplex_under_huge_losses(make):
    objective = make(3)
    for losses in ([1e6, 1.0, 5.0], [0.0, 1e6, 1e6], [1e6, 1e6, 0.0]) * 20:
        loss = objective(torch.tensor(losses), torch.tensor([0, 1, 2]))
        assert loss.isfinite()
        assert objective.weights.isfinite().all()
        assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


def test_losses_of_a_million_with_a_step_size_of_a_tenth_leave_finite_weights():
    for smoothing in (0.0, 0.1, 1.0):
        objective = ctcdro.ctc_dro(3, step_size=1e-1, smoothing=smoothing)
        for losses in ([1e6, 1e5, 9e5], [1.0, 1e6, 1e6], [0.0, 0.0, 1e6]) * 20:
            objective(torch.tensor(losses), torch.tensor([0, 1, 2]))
            assert objective.weights.isfinite().all()
            assert objective.weights.min() >= 0
            assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


@every_objective_with_characters
def test_an_infinite_loss_counts_as_if_it_were_not_there(make_any):
    with_it, without_it = make_any(NUM_GROUPS), make_any(NUM_GROUPS)
    for number, batch in enumerate(draw_batches(60, mixed=True)):
        losses, groups, characters = tensors(batch)
        losses.requires_grad_()
        without_it(losses, groups, characters).backward()
        place = number % (len(batch) + 1)
        damaged = torch.cat([losses[:place], torch.tensor([math.inf]), losses[place:]]).detach().requires_grad_()
        damaged_groups = torch.cat([groups[:place], torch.tensor([2]), groups[place:]])
        with_it(
            damaged, damaged_groups, torch.cat([characters[:place], torch.tensor([9]), characters[place:]])
        ).backward()
        assert damaged.grad[place] == 0
        assert torch.equal(damaged.grad[torch.arange(len(damaged)) != place], losses.grad)
        assert torch.equal(with_it.weights, without_it.weights)
    assert with_it.num_skipped.tolist() == [0, 0, 60, 0]
    assert without_it.num_skipped.tolist() == [0, 0, 0, 0]


@every_objective_with_characters
def test_a_broken_loss_shows_in_the_value_and_never_reaches_the_weights(make_any):
    for broken in (math.nan, -math.inf):
        assert_broken_loss_shows(make_any, broken)


def assert_broken_loss_shows(make_any, broken):
    with_it, without_it = make_any(NUM_GROUPS), make_any(NUM_GROUPS)
    for number, batch in enumerate(draw_batches(60, mixed=True)):
        losses, groups, characters = tensors(batch)
        without_it(losses, groups, characters)
        place = number % (len(batch) + 1)
        damaged = torch.cat([losses[:place], torch.tensor([broken]), losses[place:]])
        value = with_it(
            damaged,
            torch.cat([groups[:place], torch.tensor([2]), groups[place:]]),
            torch.cat([characters[:place], torch.tensor([9]), characters[place:]]),
        )
        assert value.isnan() if math.isnan(broken) else value == broken
        assert torch.equal(with_it.log_weights, without_it.log_weights)
        assert torch.equal(with_it.pending, without_it.pending)
    assert with_it.num_skipped.tolist() == [0, 0, 0, 0]
    with_it.eval()
    value = with_it(torch.tensor([5.0, math.inf, broken]), torch.tensor([0, 1, 1]))
    assert value.isnan() if math.isnan(broken) else value == broken


@every_objective
def test_a_batch_of_infinite_losses_moves_nothing_and_is_reported_once(make, path):
    objective = make(3, group_names=["ces", "cmn", "tam"])
    objective(torch.tensor([3.0]), torch.tensor([1]))
    before = objective.log_weights.clone(), objective.pending.clone()
    losses = torch.full((3,), math.inf, requires_grad=True)
    with warnings.catch_warnings(record=True, action="always") as caught:
        for _ in range(3):
            loss = objective(losses, torch.tensor([2, 0, 2]))
            loss.backward()
            assert loss == 0
        objective.eval()(losses, torch.tensor([0, 9, 0]))  # evaluation may see groups that training does not know
    assert losses.grad.tolist() == [0, 0, 0]
    assert torch.equal(objective.log_weights, before[0])
    assert torch.equal(objective.pending, before[1])
    assert objective.num_skipped.tolist() == [3, 0, 6]
    if path == "on the host":
        (warning,) = caught
        assert "infinite (groups: ces, tam): no transcript fits its frames" in str(warning.message)
        assert warning.filename == __file__
    else:
        assert not caught


def test_an_evaluation_batch_of_infinite_losses_is_reported(path):
    objective = ctcdro.erm(2).eval()
    with (
        pytest.warns(UserWarning, match="Every loss of a batch is infinite: ")
        if path == "on the host"
        else nullcontext()
    ):
        assert objective(torch.tensor([math.inf]), torch.tensor([7])) == 0


@every_objective
def test_evaluation_gives_the_plain_sum_and_moves_nothing(make):
    objective = make(NUM_GROUPS)
    for batch in draw_batches(10, mixed=True):
        objective(*tensors(batch))
    before = copy.deepcopy(objective.state_dict())
    objective.eval()
    assert objective(torch.tensor([1.0, 2.5, math.inf]), torch.tensor([0, 1, 1])) == 3.5
    after = objective.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(("make_any", "path"), ON_HOST_WITH_CHARACTERS, indirect=True)
def test_no_step_reads_a_value_from_the_device(make_any):
    # Fake tensors have no values, and refuse every operation that would have the host read one.
    with FakeTensorMode():
        objective = make_any(NUM_GROUPS)
        losses = torch.rand(10, requires_grad=True)
        for _ in range(3):
            objective(losses * 1.0, torch.randint(NUM_GROUPS, (10,)), torch.ones(10)).backward()
        with pytest.raises(Exception, match="_local_scalar_dense"):
            objective.weights.max().item()


def test_losses_of_any_precision_are_accepted():
    for name, make in OBJECTIVES.items():
        with case(name):
            losses, groups = torch.tensor([5.0, 4.0]), torch.tensor([0, 1], dtype=torch.int32)
            for dtype in (torch.float64, torch.bfloat16, torch.float16):
                expected, objective = make(2), make(2)
                value = objective(losses.to(dtype), groups).float()
                torch.testing.assert_close(value, expected(losses, groups), rtol=1e-2, atol=0)
                assert torch.equal(objective.weights, expected.weights)


def test_one_group_keeps_all_the_weight():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(1)
            for _ in range(3):
                objective(torch.tensor([5.0, 2.0]), torch.tensor([0, 0]))
            assert objective.weights.tolist() == [1.0]


def test_a_thousand_groups_are_weighed():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(1000)
            objective(torch.rand(1000), torch.arange(1000))
            if objective.needs_error_rates:
                objective.update_error_rates(torch.rand(1000))
            assert objective.pending.max() == 0
            assert objective.weights.max() > objective.weights.min() or make is ctcdro.erm
            assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1e4, width=32), st.integers(0, NUM_GROUPS - 1)), min_size=0, max_size=30))
def test_any_batch_leaves_weights_on_the_simplex(batch):
    for make in OBJECTIVES.values():
        objective = make(NUM_GROUPS)
        objective(torch.tensor([loss for loss, _ in batch]), torch.tensor([group for _, group in batch]).long())
        assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


def test_sums_of_half_precision_losses_do_not_overflow():
    for name, make in OBJECTIVES.items():
        with case(name):
            losses = torch.full((4,), 30_000.0, dtype=torch.float16)
            assert make(2)(losses, torch.tensor([0, 0, 1, 1])).isfinite()
            assert make(2).eval()(losses, torch.tensor([0, 0, 1, 1])) == 120_000


def test_sums_beyond_single_precision_leave_finite_weights():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(2)
            for _ in range(3):
                objective(torch.tensor([3e38, 3e38, 1.0]), torch.tensor([0, 0, 1]))
                assert objective.weights.isfinite().all()


def test_a_step_size_of_zero_moves_nothing():
    for make in (partial(ctcdro.group_dro, step_size=0.0), partial(ctcdro.ctc_dro, step_size=0.0, smoothing=0.1)):
        objective = make(2)
        objective(torch.tensor([3e38, 3e38, 1.0]), torch.tensor([0, 0, 1]))
        assert objective.weights.tolist() == pytest.approx([0.5, 0.5])


def test_groups_of_every_integer_type_give_the_same_result():
    for name, make in OBJECTIVES.items():
        with case(name):
            losses, groups = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1, 1, 2])  # as uint8, a mask would fit
            for dtype in (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32, torch.uint64):
                expected, objective = make(3), make(3)
                for _ in range(2):
                    assert objective(losses, groups.to(dtype)) == expected(losses, groups)
                    assert objective(losses[:2], groups[1:].to(dtype)) == expected(losses[:2], groups[1:])
                    assert objective(losses, (2 - groups).to(dtype)) == expected(losses, 2 - groups)
                assert torch.equal(objective.weights, expected.weights)


def test_an_empty_batch_counts_as_nothing():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(2)
            losses = torch.zeros(0, requires_grad=True)
            loss = objective(losses, [])
            loss.backward()
            assert loss == 0
            assert objective.weights.tolist() == [0.5, 0.5]


def test_groups_without_batches_are_reported_once(path):
    objective = ctcdro.ctc_dro(4, step_size=1e-3, smoothing=0.5, group_names=["ces", "cmn", "kor", "tam"])
    present = draw_batches(1500, mixed=True, num_groups=2)
    with warnings.catch_warnings(record=True, action="always") as caught:
        list(run(objective, present[:100]))
        assert not caught
        list(run(objective, present[100:]))
    if path == "on the host":
        (warning,) = caught
        assert "these groups had no batch with a finite loss: kor, tam" in str(warning.message)
    else:
        assert not caught
