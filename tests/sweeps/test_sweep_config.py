"""Sweeps: the paper's settings by default, and what is rejected."""

import pytest

from ctcdro.runs.config import SamplingConfig, parse_config
from ctcdro.sweeps.config import SweepSetting, parse_sweep, read_sweep


def test_a_run_is_a_sweep_over_the_papers_settings(tmp_path):
    (tmp_path / "run.yaml").write_text("dataset: set1\ntraining: {num_batches: 60}\n")
    config = read_sweep(tmp_path / "run.yaml", ["run.training.validate_every_batches=20"])
    assert (config.run.training.num_batches, config.run.training.validate_every_batches) == (60, 20)
    assert {setting.name for setting in config.grid()} == {
        *("erm", "group-dro-0.001", "group-dro-0.0001"),
        *(f"ctc-dro-{step_size}-{smoothing}" for step_size in ("0.001", "0.0001") for smoothing in ("0.1", "0.5", "1")),
    }
    assert [setting.name for setting in config.grid()[:4]] == [
        *("erm", "group-dro-0.001", "group-dro-0.0001", "ctc-dro-0.001-0.1")
    ]
    assert config.seeds == (0,)


def test_what_is_written_reads_the_same(tmp_path):
    config = parse_sweep({"run": {"dataset": "ž"}, "settings": [{"objective": "erm"}], "seeds": [3, 1]})
    config.write(tmp_path / "sweep.yaml")
    assert read_sweep(tmp_path / "sweep.yaml") == config


def test_a_run_has_the_setting_and_the_seed_and_all_else_of_the_file():
    config = parse_sweep({"run": {"dataset": "set1", "seed": 9, "objective": {"name": "erm", "reduction": "mean"}}})
    run = config.config(SweepSetting(objective="ctc-dro", step_size=1e-3, smoothing=1.0), seed=4)
    assert run.objective.model_dump() == {
        **{"name": "ctc-dro", "step_size": 1e-3, "smoothing": 1.0},
        **{"warmup_batches": 0, "reduction": "mean", "signal": "loss_per_second", "loss_normalization": "none"},
    }
    assert run.seed == 4
    assert run.model == config.run.model
    assert config.config(SweepSetting(objective="erm"), 0).objective.name == "erm"


@pytest.mark.parametrize("name", ["erm", "group-dro"])
def test_runs_of_other_objectives_omit_the_settings_of_ctc_dro(name):
    objective = {"signal": "loss_per_character", "warmup_batches": 100}
    config = parse_sweep({"run": {"dataset": "set1", "objective": objective}})
    kept = config.config(SweepSetting(objective="ctc-dro", step_size=1e-3, smoothing=1.0), seed=0).objective
    assert (kept.signal, kept.warmup_batches) == ("loss_per_character", 100)
    setting = SweepSetting(objective=name, step_size=None if name == "erm" else 1e-4)
    other = config.config(setting, seed=0)
    assert parse_config(other.model_dump(mode="json")) == other


@pytest.mark.parametrize(
    "given",
    [
        {"sampling.sampler": "group-uniform", "model.lora.rank": 4},
        {"sampling": {"sampler": "group-uniform"}, "model": {"lora": {"rank": 4}}},
        {"sampling": {"sampler": "group-uniform"}, "model.lora": {"rank": 4}},
    ],
)
def test_overrides_change_what_they_name_and_leave_the_rest(given):
    values = {"dataset": "set1", "sampling": {"batch_duration": 6.0}, "data": {"num_workers": 0}}
    config = parse_sweep({"run": values, "overrides": {"group-dro": given}})
    run = config.config(SweepSetting(objective="group-dro", step_size=1e-3), seed=4)
    assert (run.data, run.optimizer) == (config.run.data, config.run.optimizer)
    assert run.sampling.model_dump() == SamplingConfig(sampler="group-uniform").model_dump(), "no batch_duration"
    assert run.model.lora.rank == 4
    assert (run.seed, run.objective.name, run.objective.step_size) == (4, "group-dro", 1e-3)
    assert config.config(SweepSetting(objective="erm"), seed=0).sampling == config.run.sampling


def test_overrides_may_be_of_the_objective_and_of_one_that_is_not_tried():
    overrides = {"erm": {"objective": {"reduction": "mean"}}, "group-dro": {"sampling.sampler": "group-uniform"}}
    config = parse_sweep({"run": {"dataset": "set1"}, "objectives": ["erm"], "overrides": overrides})
    assert config.config(SweepSetting(objective="erm"), seed=0).objective.reduction == "mean"


def test_settings_may_be_listed():
    listed = [{"objective": "ctc-dro-unsmoothed", "step_size": "1e-4"}, {"objective": "erm"}]
    config = parse_sweep({"run": {"dataset": "set1"}, "settings": listed, "seeds": [1]})
    assert [setting.name for setting in config.grid()] == ["ctc-dro-unsmoothed-0.0001", "erm"]


def test_settings_have_different_names():
    near = (SweepSetting(objective="group-dro", step_size=size) for size in (1e-3, 1.0000001e-3, 1e-5, 1e-6))
    assert len({setting.name for setting in near}) == 4


def overridden(given):
    return {"run": {"dataset": "a"}, "overrides": {"group-dro": given}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"run": {"dataset": "a"}, "objectivs": ["erm"]}, r"objectivs: unknown key\. Did you mean objectives\?"),
        ({"objectives": ["erm"]}, r"run: missing\. Configuration of a run"),
        ({"dataset": "a", "seeds": [1]}, r"dataset: unknown key\. Did you mean run\.dataset\?"),
        (
            {"run": {"dataset": "a", "training": {"epochs": 1}}},
            r"run\.training\.epochs: unknown key\. Did you mean run\.training\.num_batches\?",
        ),
        ({"run": {"dataset": "a"}, "objectives": ["dro"]}, r"objectives\.0: must be one of erm, .*; got 'dro'"),
        ({"run": {"dataset": "a"}, "step_sizes": [1e-3, 0]}, r"step_sizes\.1: must be greater than 0; got 0"),
        ({"run": {"dataset": "a"}, "seeds": []}, r"seeds: must not be empty\.$"),
        ({"run": {"dataset": "a"}, "seeds": [1, 1]}, r"seeds: contains a duplicate; remove it\.$"),
        (
            {"run": {"dataset": "a"}, "settings": [{"objective": "erm", "step_size": 1}]},
            r"settings\.0\.step_size: erm does not take it; remove it\.",
        ),
        (
            {"run": {"dataset": "a"}, "settings": [{"objective": "ctc-dro"}]},
            r"settings\.0\.step_size: missing; ctc-dro requires it",
        ),
        (
            {"run": {"dataset": "a"}, "settings": [{"step": 1}]},
            r"settings\.0\.step: unknown key\. Did you mean settings\.0\.step_size\?",
        ),
        (overridden({"seed": 1}), r"overrides\.group-dro: seed: .* use `seeds` instead\.$"),
        (overridden({"dataset": "b"}), r"overrides\.group-dro: dataset: .* use `run\.dataset`"),
        (overridden({"objective.name": "erm"}), r"overrides\.group-dro: objective\.name: .* use `objectives`"),
        (overridden({"objective": {"step_size": 1}}), r"overrides\.group-dro: objective\.step_size: .* `step_sizes`"),
        (overridden({"objective.smoothing": 1}), r"overrides\.group-dro: objective\.smoothing: .* `smoothings`"),
        (overridden({"sampling.samplr": "x"}), r"overrides\.group-dro: sampling\.samplr: unknown key\. .*\?$"),
        (overridden({"training.compile.x": 1}), r"overrides\.group-dro: `compile` is not a section\.$"),
        ({**overridden({"samplr": 1}), "objectives": ["erm"]}, r"overrides\.group-dro: samplr: unknown key"),
    ],
)
def test_invalid_configurations_are_rejected_with_the_path_of_the_key(values, message):
    with pytest.raises(ValueError, match=message):
        parse_sweep(values)
