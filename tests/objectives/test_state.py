"""The state of an objective: contents, rejected states, independence of devices and types."""

import copy
import math

import pytest
import torch
from cases import case
from objective_runs import NUM_GROUPS, OBJECTIVES, draw_batches, run

import ctcdro


def test_a_state_saved_between_updates_continues_exactly(make_any, tmp_path):
    batches = draw_batches(120, mixed=False)
    uninterrupted = make_any(NUM_GROUPS, group_names=["a", "b", "c", "d"])
    expected = [(weights.tolist(), loss.item()) for weights, loss in run(uninterrupted, batches)]
    for stop in (1, 2, 3, 17, 50, 119):
        first = make_any(NUM_GROUPS, group_names=["a", "b", "c", "d"])
        list(run(first, batches[:stop]))
        torch.save(first.state_dict(), tmp_path / "state.pt")
        second = make_any(NUM_GROUPS, group_names=["a", "b", "c", "d"])
        second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        continued = [(weights.tolist(), loss.item()) for weights, loss in run(second, batches[stop:])]
        assert continued == expected[stop:]
    assert all(isinstance(value, torch.Tensor) for value in first.state_dict().values())


def test_pending_losses_are_part_of_the_state():
    objective = ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.5)
    objective(torch.tensor([7.0, 8.0]), torch.tensor([1, 1]))
    state = objective.state_dict()
    assert state["pending"].tolist() == [[0, 15], [0, 1], [0, 0]]


def test_a_state_of_other_groups_is_rejected_and_changes_nothing():
    for name, make in OBJECTIVES.items():
        with case(name):
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


def test_a_state_of_other_groups_is_rejected_inside_a_model():
    saved = torch.nn.ModuleDict({"loss": ctcdro.CTCDROLoss(3, step_size=1e-3, smoothing=0.5)})
    other = torch.nn.ModuleDict({"loss": ctcdro.CTCDROLoss(4, step_size=1e-3, smoothing=0.5)})
    with pytest.raises(ValueError, match="of 3 groups, but this objective has 4"):
        other.load_state_dict(saved.state_dict())


def test_a_state_without_names_fits_as_many_named_groups():
    for name, make in OBJECTIVES.items():
        with case(name):
            saved = make(2)
            saved(torch.tensor([5.0, 4.0]), torch.tensor([0, 1]))
            named = make(2, group_names=["ces", "cmn"])
            named.load_state_dict(saved.state_dict())
            assert torch.equal(named.weights, saved.weights)


def test_casting_a_model_to_half_precision_does_not_round_the_weights():
    for name, make in OBJECTIVES.items():
        with case(name):
            objective = make(3)
            objective(torch.tensor([50.0, 7.0, 1.0]), torch.tensor([0, 1, 2]))
            weights = objective.weights
            model = torch.nn.Sequential(torch.nn.Linear(2, 2), objective).bfloat16()
            assert model[0].weight.dtype == torch.bfloat16
            assert torch.equal(objective.weights, weights)
            assert make(3).to("meta").weights.is_meta


def test_weights_are_kept_in_single_precision_whatever_the_default():
    for name, make in OBJECTIVES.items():
        with case(name):
            torch.set_default_dtype(torch.bfloat16)
            try:
                objective = make(3)
            finally:
                torch.set_default_dtype(torch.float32)
            assert objective.weights.dtype == torch.float32


def test_the_settings_show():
    assert repr(OBJECTIVES["erm"](7)) == "ERM(num_groups=7, reduction='sum')"
    assert repr(OBJECTIVES["group_dro"](7)) == "GroupDRO(num_groups=7, step_size=0.001, reduction='sum')"
    assert repr(OBJECTIVES["ctc_dro_unsmoothed, mean"](7)) == (
        "CTCDRO(num_groups=7, step_size=0.0001, signal='loss_per_second', warmup_batches=0, reduction='mean')"
    )
    assert "step_size=0.0001, smoothing=0.1" in repr(ctcdro.CTCDROLoss(2, step_size=1e-4, smoothing=0.1))


def test_a_state_that_is_not_finite_is_rejected_and_changes_nothing():
    for name, make in OBJECTIVES.items():
        with case(name):
            saved = make(2)
            saved(torch.tensor([5.0]), torch.tensor([0]))
            for key in ("log_weights", "pending"):
                state = copy.deepcopy(saved.state_dict())
                state[key].view(-1)[1] = math.nan
                model = torch.nn.ModuleDict({"loss": make(2)})
                with pytest.raises(ValueError, match=f"infinite or NaN values in `loss.{key}`"):
                    model.load_state_dict({f"loss.{name}": value for name, value in state.items()})
                assert model["loss"].pending.tolist() == [[0, 0]] * 3
                assert model["loss"].weights.tolist() == [0.5, 0.5]
