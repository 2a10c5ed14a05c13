"""Sweeps: settings over any keys of a run, the paper's settings by default, and what is rejected."""

import pytest
from cases import case

from ctcdro.runs.config import SamplingConfig, parse_config
from ctcdro.sweeps.config import MAX_COMBINATIONS, parse_sweep, read_sweep


def sweep_of(*settings, **run):
    return parse_sweep({"run": {"dataset": "set1", **run}, "settings": list(settings)})


def only_run(*settings, **run):
    """The configuration of the only setting."""
    config = sweep_of(*settings, **run)
    [setting] = config.grid()
    return config.config(setting, seed=4)


def test_a_run_is_a_sweep_over_the_papers_settings(tmp_path):
    (tmp_path / "run.yaml").write_text("dataset: set1\ntraining: {num_batches: 60}\n")
    config = read_sweep(tmp_path / "run.yaml", ["run.training.validate_every_batches=20", "model.encoder=mel-small"])
    assert (config.run.training.num_batches, config.run.training.validate_every_batches) == (60, 20)
    assert config.run.model.encoder == "mel-small"
    assert [setting.name for setting in config.grid()] == [
        *("erm", "group-dro-0.001", "group-dro-0.0001"),
        *(f"ctc-dro-{step_size}-{smoothing}" for step_size in ("0.001", "0.0001") for smoothing in ("0.1", "0.5", "1")),
    ]
    assert config.seeds == (0,)


def test_what_is_written_reads_the_same(tmp_path):
    entries = [{"objective": "erm"}, {"objective": "ctc-dro", "label": "ž", "optimizer.betas": [[0.9, 0.98]]}]
    config = parse_sweep({"run": {"dataset": "ž"}, "settings": entries, "seeds": [3, 1]})
    config.write(tmp_path / "sweep.yaml")
    assert read_sweep(tmp_path / "sweep.yaml") == config


def test_every_combination_of_listed_values_of_any_keys_is_a_setting():
    entry = {"objective": "ctc-dro", "optimizer.learning_rate": ["1e-3", 1e-4], "signal": "loss_per_character"}
    config = sweep_of(entry | {"smoothing": [0.1, 1]}, objective={"step_size": 1e-3})
    assert [setting.name for setting in config.grid()] == [
        f"ctc-dro-0.001-{smoothing}-signal=loss_per_character-learning_rate={rate}"
        for rate in ("0.001", "0.0001")
        for smoothing in ("0.1", "1")
    ]
    run = config.config(config.grid()[0], seed=4)
    assert (run.seed, run.optimizer.learning_rate) == (4, 1e-3)
    assert (run.objective.step_size, run.objective.smoothing, run.objective.signal) == (1e-3, 0.1, "loss_per_character")
    assert run.data == config.run.data


def test_a_value_that_is_a_list_is_an_item_of_a_list():
    assert only_run({"objective": "erm", "optimizer.betas": [[0.9, 0.98]]}).optimizer.betas == (0.9, 0.98)


def test_values_that_are_not_listed_are_those_of_the_run():
    [setting] = sweep_of({"objective": "ctc-dro"}, objective={"step_size": 1e-3, "smoothing": 1}).grid()
    assert (setting.values, setting.name) == ({"step_size": 1e-3, "smoothing": 1.0}, "ctc-dro-0.001-1")


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "sweep.yaml").write_text(
        "run: {dataset: data, model: {freeze_encoder: true}}\n"
        "settings: [{objective: erm, model.feature_cache_dir: [a, b]}]\n"
    )
    config = read_sweep(tmp_path / "sweep.yaml")
    caches = [config.config(setting, 0).model.feature_cache_dir for setting in config.grid()]
    assert caches == [tmp_path / "a", tmp_path / "b"]


def test_a_mapping_is_one_value(tmp_path):
    (tmp_path / "sweep.yaml").write_text(
        "run: {dataset: data}\n"
        "settings:\n"
        "  - {objective: static, weights: {ces: 1, cmn: 2.5}, label: by CER}\n"
        "  - {objective: static, weights: [{ces: 1, cmn: 3}, {ces: 1, cmn: 4}]}\n"
        "  - {objective: error-weighted, baseline: runs/erm, max_relative_loss: [0.02, 0.1]}\n"
    )
    config = read_sweep(tmp_path / "sweep.yaml")
    names = [setting.name for setting in config.grid()]
    assert names[:3] == [f"static-weights=ces_1_cmn_{weight}" for weight in ("2.5", "3", "4")]
    first, *_, last = (config.config(setting, seed=4) for setting in config.grid())
    assert (first.objective.weights, first.method, first.sampler) == ({"ces": 1, "cmn": 2.5}, "by CER", "adaptive")
    assert (last.objective.baseline, last.objective.max_relative_loss) == (tmp_path / "runs" / "erm", 0.1)
    [long] = sweep_of({"objective": "static", "weights": {f"l{number}": 1 for number in range(99)}}).grid()
    assert len(long.name) < 200


def test_a_label_names_the_method_also_in_the_configuration_of_the_run():
    config = sweep_of({"objective": "ctc-dro"}, {"objective": "ctc-dro", "reduction": "mean", "label": "ours"})
    assert [setting.method for setting in config.grid()] == ["CTC-DRO", "ours"]
    assert [config.config(setting, 0).label for setting in config.grid()] == [None, "ours"]
    assert [config.changes(setting) for setting in config.grid()] == [{}, {"reduction": "mean"}]


@pytest.mark.parametrize("name", ["erm", "group-dro"])
def test_runs_of_other_objectives_omit_the_settings_of_ctc_dro(name):
    objective = {"signal": "loss_per_character", "warmup_batches": 100}
    kept = only_run({"objective": "ctc-dro"}, objective=objective).objective
    assert (kept.signal, kept.warmup_batches) == ("loss_per_character", 100)
    other = only_run({"objective": name}, objective=objective)
    assert parse_config(other.model_dump(mode="json")) == other


@pytest.mark.parametrize(
    "given",
    [
        {"sampling.sampler": "group-uniform", "model.lora.rank": 4},
        {"sampling": {"sampler": "group-uniform"}, "model": {"lora": {"rank": 4}}},
        {"sampling": {"sampler": "group-uniform"}, "model.lora": {"rank": 4}},
    ],
)
def test_keys_may_be_dotted_or_nested(given):
    run = only_run({"objective": "group-dro", **given}, sampling={"batch_duration": 6.0}, data={"num_workers": 0})
    assert run.sampling.model_dump() == SamplingConfig(sampler="group-uniform").model_dump(), "no batch_duration"
    assert (run.model.lora.rank, run.data.num_workers) == (4, 0)
    assert (run.seed, run.objective.name) == (4, "group-dro")


def test_an_option_may_change_one_of_the_settings():
    values = {"run": {"dataset": "set1"}, "settings": [{"objective": "erm"}, {"objective": "ctc-dro", "smoothing": 1}]}
    config = parse_sweep(values, ["settings.1.smoothing=0.5", "settings.1.sampling.exponent=1"])
    assert [setting.name for setting in config.grid()] == ["erm", "ctc-dro-0.0001-0.5-exponent=1"]
    for wrong in ("settings.2.smoothing=1", "settings.a=1"):
        with pytest.raises(ValueError, match=r"must be the number of an item, from 0 to 1\.$"):
            parse_sweep(values, [wrong])


def test_names_show_values_in_full():
    config = sweep_of({"objective": "group-dro", "step_size": [1e-3, 1.0000001e-3, 1e-5, 1e-6]})
    assert len({setting.name for setting in config.grid()}) == 4
    [setting] = sweep_of({"objective": "erm", "model.encoder": "openai/whisper-base", "optimizer.name": "adamw"}).grid()
    assert setting.name == "erm-encoder=openai_whisper-base-optimizer.name=adamw"


def test_keys_of_the_run_without_effect_are_known():
    run = {"dataset": "a", "seed": 7, "objective": {"step_size": 1e-2, "signal": "loss_per_character"}}
    assert parse_sweep({"run": run}).replaced_keys() == ["objective.step_size", "seed"]
    assert parse_sweep({"run": run, "settings": [{"objective": "ctc-dro"}], "seeds": [7]}).replaced_keys() == []


def entry(**given):
    return {"run": {"dataset": "a"}, "settings": [{"objective": "group-dro", **given}]}


def test_invalid_configurations_are_rejected_with_the_path_of_the_key():
    for values, message in (
        ({"run": {"dataset": "a"}, "sedes": [1]}, r"sedes: unknown key\. Did you mean seeds\?"),
        ({"seeds": [1]}, r"run: missing\. Configuration of a run"),
        ({"dataset": "a", "seeds": [1]}, r"dataset: unknown key\. Did you mean run\.dataset\?"),
        (
            {"run": {"dataset": "a", "training": {"epochs": 1}}},
            r"run\.training\.epochs: unknown key\. Did you mean run\.training\.num_batches\?",
        ),
        ({"run": {"dataset": "a"}, "seeds": []}, r"seeds: must not be empty"),
        ({"run": {"dataset": "a"}, "seeds": [1, 1]}, r"seeds: contains a duplicate; remove it\.$"),
        ({"run": {"dataset": "a"}, "settings": []}, r"settings: must not be empty"),
        (entry(objective="dro"), r"settings\.0\.objective: must be one of erm, .*; got 'dro'"),
        (entry(smoothing=1), r"settings\.0\.smoothing: group-dro does not take it; remove it\."),
        (entry(step_size=[]), r"settings\.0\.step_size: must not be empty\."),
        (entry(step_size=[1e-3, -1]), r"settings\.0: objective\.step_size: must be at least 0; got -1"),
        (entry(step=1), r"settings\.0: objective\.step: unknown key\. Did you mean objective\.step_size\?"),
        (entry(seed=1), r"settings\.0\.seed: set by the sweep; use `seeds` instead\.$"),
        (entry(dataset="b"), r"settings\.0\.dataset: .* use `run\.dataset`"),
        (entry(**{"objective.name": "erm"}), r"settings\.0\.objective\.name: .* use `objective`"),
        (entry(**{"sampling.samplr": "x"}), r"settings\.0: sampling\.samplr: unknown key\. .*\?$"),
        (entry(**{"training.compile.x": 1}), r"settings\.0: `compile` is not a section\.$"),
        (entry(step_size=[0.1, 0.1]), r"settings: group-dro-0\.1 is the same as group-dro-0\.1; remove one of them"),
        (
            entry(**{"data.num_workers": [2, 3], "step_size": list(range(MAX_COMBINATIONS))}),
            r"settings\.0\.objective: 2,000 combinations of values; use at most 1,000",
        ),
    ):
        with case(message), pytest.raises(ValueError, match=message):
            parse_sweep(values)


def test_settings_that_give_the_same_run_are_rejected():
    with pytest.raises(ValueError, match=r"settings: erm-learning_rate=0\.0001 is the same as erm; remove one of them"):
        sweep_of({"objective": "erm"}, {"objective": "erm", "label": "x", "optimizer.learning_rate": 1e-4})


def test_an_error_in_an_override_names_the_override():
    with pytest.raises(ValueError, match=r"^--set run\.training\.epochs=3: run\.training\.epochs: unknown key\."):
        parse_sweep({"run": {"dataset": "a"}}, ["training.epochs=3"], source="run.yaml")
