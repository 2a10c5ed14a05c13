"""The objectives: against the paper's algorithms in double precision, and what all of them promise."""

import copy
import math
import random
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import algorithm_1, algorithm_2
from torch._subclasses.fake_tensor import FakeTensorMode

import ctcdro

NUM_GROUPS = 4
OBJECTIVES = {
    "erm": ctcdro.erm,
    "group_dro": partial(ctcdro.group_dro, step_size=1e-3),
    "ctc_dro": partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5),
    "ctc_dro, mean": partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5, reduction="mean"),
    "ctc_dro_unsmoothed": partial(ctcdro.ctc_dro_unsmoothed, step_size=1e-4),
}
every_objective = pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES.keys())
every_dro = pytest.mark.parametrize("make", list(OBJECTIVES.values())[1:], ids=list(OBJECTIVES)[1:])


@pytest.fixture(autouse=True, params=["on the host", "on the device"])
def path(request, monkeypatch):
    """Every test here runs twice: as on a CPU, and with the tensor operations that are for other devices."""
    if request.param == "on the device":
        monkeypatch.setattr(ctcdro.objectives.steps_python, "can_read", lambda losses, groups: False)
    return request.param


def draw_batches(num_batches, *, mixed, num_groups=NUM_GROUPS, seed=0):
    """Batches as lists of (loss, group); losses differ by group as those of languages do."""
    rng = random.Random(seed)
    batches = []
    for _ in range(num_batches):
        group = rng.randrange(num_groups)
        groups = [rng.randrange(num_groups) if mixed else group for _ in range(rng.randint(1, 8))]
        batches.append([(rng.lognormvariate(3.0 + 0.4 * g, 0.5), g) for g in groups])
    return batches


def tensors(batch):
    losses, groups = zip(*batch, strict=True)
    return torch.tensor(losses), torch.tensor(groups)


def run(objective, batches):
    """The weights and the loss after every batch."""
    for batch in batches:
        loss = objective(*tensors(batch))
        yield objective.weights, loss


def assert_same_run(run, expected):
    num_batches = 0
    for (weights, loss), (expected_weights, expected_loss) in zip(run, expected, strict=True):
        assert weights.tolist() == pytest.approx(expected_weights, rel=2e-5, abs=1e-9)
        assert loss.item() == pytest.approx(expected_loss, rel=2e-5)
        num_batches += 1
    assert num_batches >= 300


@pytest.mark.parametrize("mixed", [False, True], ids=["one group a batch", "mixed groups"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("step_size", [1e-3, 1e-4])
def test_ctc_dro_follows_algorithm_2(step_size, smoothing, mixed):
    batches = draw_batches(400, mixed=mixed)
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=step_size, smoothing=smoothing)
    expected = algorithm_2(batches, NUM_GROUPS, lambda loss, q: step_size * loss / (q + smoothing))
    assert_same_run(run(objective, batches), expected)
    assert objective.weights.max() > 0.3


@pytest.mark.parametrize("mixed", [False, True], ids=["one group a batch", "mixed groups"])
def test_the_ablation_follows_algorithm_2_with_the_step_of_algorithm_1(mixed):
    batches = draw_batches(400, mixed=mixed)
    objective = ctcdro.ctc_dro_unsmoothed(NUM_GROUPS, step_size=1e-4)
    assert_same_run(run(objective, batches), algorithm_2(batches, NUM_GROUPS, lambda loss, q: 1e-4 * loss))


@pytest.mark.parametrize("mixed", [False, True], ids=["one group a batch", "mixed groups"])
def test_group_dro_follows_algorithm_1(mixed):
    batches = draw_batches(400, mixed=mixed)
    objective = ctcdro.group_dro(NUM_GROUPS, step_size=1e-4)
    assert_same_run(run(objective, batches), algorithm_1(batches, NUM_GROUPS, step_size=1e-4))


@pytest.mark.parametrize("mixed", [False, True], ids=["one group a batch", "mixed groups"])
@pytest.mark.parametrize("make", [OBJECTIVES["ctc_dro"], OBJECTIVES["ctc_dro_unsmoothed"]])
def test_scales_are_seen_by_the_update_and_not_by_the_gradient(make, mixed):
    scales = [0.25, 1.5, 1.0, 1.25]
    batches = draw_batches(200, mixed=mixed)
    scaled = [[(loss * scales[group], group) for loss, group in batch] for batch in batches]
    with_scales = run(make(NUM_GROUPS, loss_scales=scales), batches)
    for batch, (weights, loss), (expected, _) in zip(batches, with_scales, run(make(NUM_GROUPS), scaled), strict=True):
        torch.testing.assert_close(weights, expected, rtol=2e-5, atol=0)
        losses, groups = tensors(batch)
        torch.testing.assert_close(loss, NUM_GROUPS * (expected[groups] * losses).sum(), rtol=2e-5, atol=0)


def test_scales_are_settings_and_not_part_of_the_state():
    criterion = ctcdro.CTCDROLoss(2, step_size=1e-3, smoothing=0.5, loss_scales=[0.5, 1.5])
    criterion.load_state_dict(ctcdro.CTCDROLoss(2, step_size=1e-3, smoothing=0.5).state_dict())
    assert criterion.objective.loss_scales.tolist() == [0.5, 1.5]


def test_scales_per_label_make_groups_of_one_loss_a_label_alike():
    num_labels, durations, loss_a_label = [900.0, 300.0, 50.0], [60.0, 60.0, 30.0], 2.0
    scales = torch.tensor(ctcdro.scales_per_label(num_labels, durations))
    loss_a_second = torch.tensor(num_labels) * loss_a_label / torch.tensor(durations)
    seen = scales * loss_a_second
    torch.testing.assert_close(seen, seen[:1].expand(3))
    torch.testing.assert_close(scales.mean(), torch.tensor(1.0))


def test_the_mean_reduction_divides_the_loss_and_leaves_the_weights():
    batches = draw_batches(100, mixed=True)
    make = partial(ctcdro.ctc_dro, NUM_GROUPS, step_size=1e-3, smoothing=0.5)
    for batch, (weights, loss), (mean_weights, mean_loss) in zip(
        batches, run(make(), batches), run(make(reduction="mean"), batches), strict=True
    ):
        assert torch.equal(weights, mean_weights)
        assert mean_loss.item() == pytest.approx(loss.item() / len(batch), rel=1e-6)


def test_uniform_weights_make_ctc_dro_the_plain_sum():
    objective = ctcdro.ctc_dro(NUM_GROUPS, step_size=0.0, smoothing=0.5)
    for batch in draw_batches(50, mixed=True):
        losses, groups = tensors(batch)
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


# What all objectives promise.


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


@every_objective
def test_an_infinite_loss_counts_as_if_it_were_not_there(make):
    with_it, without_it = make(NUM_GROUPS), make(NUM_GROUPS)
    for number, batch in enumerate(draw_batches(60, mixed=True)):
        losses, groups = tensors(batch)
        losses.requires_grad_()
        without_it(losses, groups).backward()
        place = number % (len(batch) + 1)
        damaged = torch.cat([losses[:place], torch.tensor([math.inf]), losses[place:]]).detach().requires_grad_()
        damaged_groups = torch.cat([groups[:place], torch.tensor([2]), groups[place:]])
        with_it(damaged, damaged_groups).backward()
        assert damaged.grad[place] == 0
        assert torch.equal(damaged.grad[torch.arange(len(damaged)) != place], losses.grad)
        assert torch.equal(with_it.weights, without_it.weights)
    assert with_it.num_skipped.tolist() == [0, 0, 60, 0]
    assert without_it.num_skipped.tolist() == [0, 0, 0, 0]


@every_objective
@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_a_broken_loss_shows_in_the_value_and_never_reaches_the_weights(make, broken):
    with_it, without_it = make(NUM_GROUPS), make(NUM_GROUPS)
    for number, batch in enumerate(draw_batches(60, mixed=True)):
        losses, groups = tensors(batch)
        without_it(losses, groups)
        place = number % (len(batch) + 1)
        damaged = torch.cat([losses[:place], torch.tensor([broken]), losses[place:]])
        value = with_it(damaged, torch.cat([groups[:place], torch.tensor([2]), groups[place:]]))
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


@every_objective
def test_a_state_saved_between_updates_continues_exactly(make, tmp_path):
    batches = draw_batches(120, mixed=False)
    uninterrupted = make(NUM_GROUPS, group_names=["a", "b", "c", "d"])
    expected = [(weights.tolist(), loss.item()) for weights, loss in run(uninterrupted, batches)]
    for stop in (1, 2, 3, 17, 50, 119):
        first = make(NUM_GROUPS, group_names=["a", "b", "c", "d"])
        list(run(first, batches[:stop]))
        torch.save(first.state_dict(), tmp_path / "state.pt")
        second = make(NUM_GROUPS, group_names=["a", "b", "c", "d"])
        second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        continued = [(weights.tolist(), loss.item()) for weights, loss in run(second, batches[stop:])]
        assert continued == expected[stop:]
    assert all(isinstance(value, torch.Tensor) for value in first.state_dict().values())


def test_waiting_losses_are_part_of_the_state():
    objective = ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.5)
    objective(torch.tensor([7.0, 8.0]), torch.tensor([1, 1]))
    state = objective.state_dict()
    assert state["pending"].tolist() == [[0, 15], [0, 1]]


@every_objective
def test_a_state_of_other_groups_is_refused_and_changes_nothing(make):
    saved = make(3, group_names=["ces", "cmn", "nan"])
    saved(torch.tensor([5.0]), torch.tensor([0]))
    for other, difference in (
        (make(2, group_names=["ces", "cmn"]), r"3 groups \(ces, cmn, nan\).*has 2 \(ces, cmn\)"),
        (make(4), r"3 groups \(ces, cmn, nan\).*has 4;"),
        (make(3, group_names=["ces", "nan", "cmn"]), r"\(ces, cmn, nan\).*\(ces, nan, cmn\)"),
    ):
        before = copy.deepcopy(other.state_dict())
        with pytest.raises(ValueError, match=difference):
            other.load_state_dict(saved.state_dict())
        assert all(torch.equal(before[key], other.state_dict()[key]) for key in before)


def test_a_state_of_other_groups_is_refused_inside_a_model():
    saved = torch.nn.ModuleDict({"loss": ctcdro.CTCDROLoss(3, step_size=1e-3, smoothing=0.5)})
    other = torch.nn.ModuleDict({"loss": ctcdro.CTCDROLoss(4, step_size=1e-3, smoothing=0.5)})
    with pytest.raises(ValueError, match="of 3 groups, but this objective has 4"):
        other.load_state_dict(saved.state_dict())


@every_objective
def test_a_state_without_names_fits_as_many_named_groups(make):
    saved = make(2)
    saved(torch.tensor([5.0, 4.0]), torch.tensor([0, 1]))
    named = make(2, group_names=["ces", "cmn"])
    named.load_state_dict(saved.state_dict())
    assert torch.equal(named.weights, saved.weights)


@every_objective
def test_no_step_reads_a_value_from_the_device(make):
    # Fake tensors have no values, and refuse every operation that would have the host read one.
    with FakeTensorMode():
        objective = make(NUM_GROUPS)
        losses = torch.rand(10, requires_grad=True)
        for _ in range(3):
            objective(losses * 1.0, torch.randint(NUM_GROUPS, (10,))).backward()
        with pytest.raises(Exception, match="_local_scalar_dense"):
            objective.weights.max().item()


@every_objective
def test_casting_a_model_to_half_precision_does_not_round_the_weights(make):
    objective = make(3)
    objective(torch.tensor([50.0, 7.0, 1.0]), torch.tensor([0, 1, 2]))
    weights = objective.weights
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), objective).bfloat16()
    assert model[0].weight.dtype == torch.bfloat16
    assert torch.equal(objective.weights, weights)
    assert make(3).to("meta").weights.is_meta


@every_objective
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_losses_of_any_precision_are_taken(make, dtype):
    expected, objective = make(2), make(2)
    losses, groups = torch.tensor([5.0, 4.0]), torch.tensor([0, 1], dtype=torch.int32)
    torch.testing.assert_close(objective(losses.to(dtype), groups).float(), expected(losses, groups), rtol=1e-2, atol=0)
    assert torch.equal(objective.weights, expected.weights)


@every_dro
def test_one_group_keeps_all_the_weight(make):
    objective = make(1)
    for _ in range(3):
        objective(torch.tensor([5.0, 2.0]), torch.tensor([0, 0]))
    assert objective.weights.tolist() == [1.0]


@every_dro
def test_a_thousand_groups_are_weighed(make):
    objective = make(1000)
    objective(torch.rand(1000), torch.arange(1000))
    assert objective.pending.max() == 0
    assert objective.weights.max() > objective.weights.min()
    assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1e4, width=32), st.integers(0, NUM_GROUPS - 1)), min_size=0, max_size=30))
def test_any_batch_leaves_weights_on_the_simplex(batch):
    for make in OBJECTIVES.values():
        objective = make(NUM_GROUPS)
        objective(torch.tensor([loss for loss, _ in batch]), torch.tensor([group for _, group in batch]).long())
        assert objective.weights.sum().item() == pytest.approx(1.0, abs=1e-5)


@every_objective
def test_weights_are_kept_in_single_precision_whatever_the_default(make):
    torch.set_default_dtype(torch.bfloat16)
    try:
        objective = make(3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert objective.weights.dtype == torch.float32


@every_objective
def test_sums_of_half_precision_losses_do_not_overflow(make):
    losses = torch.full((4,), 30_000.0, dtype=torch.float16)
    assert make(2)(losses, torch.tensor([0, 0, 1, 1])).isfinite()
    assert make(2).eval()(losses, torch.tensor([0, 0, 1, 1])) == 120_000


@every_objective
def test_sums_beyond_single_precision_leave_finite_weights(make):
    objective = make(2)
    for _ in range(3):
        objective(torch.tensor([3e38, 3e38, 1.0]), torch.tensor([0, 0, 1]))
        assert objective.weights.isfinite().all()


def test_a_step_size_of_zero_moves_nothing():
    for make in (partial(ctcdro.group_dro, step_size=0.0), partial(ctcdro.ctc_dro, step_size=0.0, smoothing=0.1)):
        objective = make(2)
        objective(torch.tensor([3e38, 3e38, 1.0]), torch.tensor([0, 0, 1]))
        assert objective.weights.tolist() == pytest.approx([0.5, 0.5])


GROUP_TYPES = [torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


@every_objective
@pytest.mark.parametrize("dtype", GROUP_TYPES)
def test_groups_of_every_integer_type_give_the_same_result(make, dtype):
    losses, groups = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1, 1, 2])  # as uint8, a mask would fit
    expected, objective = make(3), make(3)
    for _ in range(2):
        assert objective(losses, groups.to(dtype)) == expected(losses, groups)
        assert objective(losses[:2], groups[1:].to(dtype)) == expected(losses[:2], groups[1:])
        assert objective(losses, (2 - groups).to(dtype)) == expected(losses, 2 - groups)
    assert torch.equal(objective.weights, expected.weights)


@every_objective
def test_groups_may_be_lists_arrays_or_names(make):
    losses = torch.tensor([5.0, 4.0, 2.0])
    expected = make(3)(losses, torch.tensor([2, 0, 1]))
    for groups in (
        [2, 0, 1],
        np.array([2, 0, 1], dtype=np.uint16),
        ["tam", "ces", "cmn"],
        np.array(["tam", "ces", "cmn"]),
    ):
        assert make(3, group_names=["ces", "cmn", "tam"])(losses, groups) == expected


@every_objective
def test_unknown_names_are_refused_in_training_only(make):
    objective = make(2, group_names=["ces", "cmn"])
    with pytest.raises(ValueError, match="`groups` has 'deu', which is not in `group_names`: ces, cmn"):
        objective(torch.ones(2), ["ces", "deu"])
    with pytest.raises(ValueError, match=r"`groups` has names \('ces', ...\).*Create it with `group_names`"):
        make(2)(torch.ones(2), ["ces", "deu"])
    assert objective.eval()(torch.ones(2), ["ces", "deu"]) == 2


@every_objective
def test_an_empty_batch_counts_as_nothing(make):
    objective = make(2)
    losses = torch.zeros(0, requires_grad=True)
    loss = objective(losses, [])
    loss.backward()
    assert loss == 0
    assert objective.weights.tolist() == [0.5, 0.5]


def test_numbers_of_numpy_are_accepted_and_give_the_same_weights():
    expected = ctcdro.ctc_dro(2, step_size=0.125, smoothing=0.5)
    objective = ctcdro.ctc_dro(np.int64(2), step_size=np.float32(0.125), smoothing=np.float64(0.5))
    for one in (expected, objective):
        one(torch.tensor([5.0, 4.0]), [0, 1])
    assert torch.equal(objective.weights, expected.weights)
    assert type(objective.num_groups) is int


def test_the_settings_show():
    assert repr(OBJECTIVES["erm"](7)) == "ERM(num_groups=7, reduction='sum')"
    assert repr(OBJECTIVES["group_dro"](7)) == "GroupDRO(num_groups=7, step_size=0.001, reduction='sum')"
    assert "CTCDRO(num_groups=7, step_size=0.001, smoothing=0.5, reduction='mean')" in repr(
        OBJECTIVES["ctc_dro, mean"](7)
    )
    assert "step_size=0.0001, smoothing=0.1" in repr(ctcdro.CTCDROLoss(2, step_size=1e-4, smoothing=0.1))


@pytest.mark.parametrize("mixed", [False, True], ids=["one group a batch", "mixed groups"])
def test_groups_without_batches_are_reported_once(mixed, path):
    objective = ctcdro.ctc_dro(4, step_size=1e-3, smoothing=0.5, group_names=["ces", "cmn", "kor", "tam"])
    present = draw_batches(1500, mixed=mixed, num_groups=2)
    with warnings.catch_warnings(record=True, action="always") as caught:
        list(run(objective, present[:100]))
        assert not caught
        list(run(objective, present[100:]))
    if path == "on the host":
        (warning,) = caught
        assert "none had a finite loss of these groups: kor, tam" in str(warning.message)
    else:
        assert not caught


@every_objective
def test_a_state_that_is_not_finite_is_refused_and_changes_nothing(make):
    saved = make(2)
    saved(torch.tensor([5.0]), torch.tensor([0]))
    for name in ("log_weights", "pending"):
        state = copy.deepcopy(saved.state_dict())
        state[name].view(-1)[1] = math.nan
        model = torch.nn.ModuleDict({"loss": make(2)})
        with pytest.raises(ValueError, match=f"values in `loss.{name}` that are not finite"):
            model.load_state_dict({f"loss.{key}": value for key, value in state.items()})
        assert model["loss"].pending.tolist() == [[0, 0], [0, 0]]
        assert model["loss"].weights.tolist() == [0.5, 0.5]


# Bad input.


@every_objective
def test_losses_that_are_whole_numbers_are_refused(make):
    with pytest.raises(ValueError, match=r"`losses` must be floating-point numbers; got torch\.int64"):
        make(2)(torch.tensor([20, 1]), torch.tensor([0, 1]))


def test_group_dro_has_no_reduction():
    with pytest.raises(TypeError, match="reduction"):
        ctcdro.group_dro(2, step_size=1e-3, reduction="mean")


@every_objective
@pytest.mark.parametrize("group", [-1, 2, 100])
def test_groups_out_of_range_are_named(make, group):
    # On other devices the index is checked by torch, in its own words.
    with pytest.raises(
        (ValueError, IndexError, RuntimeError),
        match=rf"must be numbers from 0 to 1; got .*{group}|out of (bounds|range)",
    ):
        make(2)(torch.tensor([1.0, 2.0]), torch.tensor([1, group]))


@every_objective
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_shapes_that_do_not_fit_are_refused(make, shape):
    with pytest.raises(ValueError, match=r"`losses` and `groups`.*\(2,\)"):
        make(2)(torch.ones(2), torch.zeros(shape, dtype=torch.int64))


@every_objective
def test_groups_that_are_not_whole_numbers_are_refused(make):
    for groups in (torch.zeros(2), torch.tensor([True, False]), [False, True]):
        with pytest.raises(ValueError, match=r"`groups` must be whole numbers.*torch\.(float32|bool)"):
            make(2)(torch.ones(2), groups)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ctcdro.erm(0), "`num_groups` must be a whole number, at least 1; got 0"),
        (lambda: ctcdro.erm(2.0), r"`num_groups` must be a whole number, at least 1; got 2\.0"),
        (lambda: ctcdro.erm(True), "`num_groups` must be a whole number, at least 1; got True"),
        (lambda: ctcdro.group_dro(2, step_size=True), "`step_size` must be a finite number, zero or more; got True"),
        (lambda: ctcdro.erm(2, group_names=[1, 2]), "`group_names` must be 2 different names"),
        (lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing="0.1"), "`smoothing` must be a finite number.*'0.1'"),
        (lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=math.inf), "`smoothing` must be a finite number.*inf"),
        (lambda: ctcdro.erm(2, reduction="none"), "`reduction` must be .*'none'"),
        (lambda: ctcdro.erm(2, group_names=["a"]), "`group_names` must be 2 different names.*'a'"),
        (lambda: ctcdro.erm(2, group_names=["a", "a"]), "`group_names` must be 2 different names"),
        (lambda: ctcdro.group_dro(2, step_size=-1.0), r"`step_size` must be a finite number, zero or more; got -1\.0"),
        (
            lambda: ctcdro.ctc_dro(2, step_size=math.nan, smoothing=0.1),
            "`step_size` must be a finite number, zero or more; got nan",
        ),
        (
            lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=-0.1),
            r"`smoothing` must be a finite number, zero or more; got -0\.1",
        ),
        (lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, reduction="none"), "`reduction` must be"),
        (
            lambda: ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, loss_scales=[1.0]),
            r"`loss_scales` must be 2 positive numbers, one for each group; got \[1\.0\]",
        ),
        (lambda: ctcdro.ctc_dro_unsmoothed(2, step_size=1e-3, loss_scales=[1.0, 0.0]), "`loss_scales` must be 2"),
        (lambda: ctcdro.scales_per_label([5, 0], [1, 1]), "must have a positive number for each group"),
    ],
)
def test_arguments_that_make_no_sense_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
