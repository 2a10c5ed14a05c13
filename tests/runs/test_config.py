"""Configurations: the paper's defaults, overrides, and what is refused."""

import pytest
import yaml

from ctcdro.models.recognizer import build
from ctcdro.runs.config import Config, parse_config, read_config


def test_defaults_are_the_papers():
    config = parse_config({"dataset": "set1"})
    assert (config.training.epochs, config.optimizer.accumulate, config.optimizer.learning_rate) == (40, 16, 1e-4)
    assert (config.batches.batch_duration, config.batches.sampler) == (50.0, "length-matched")
    assert (config.objective.name, config.objective.step_size, config.objective.smoothing) == ("ctc-dro", 1e-4, 0.1)
    assert (config.objective.reduction, config.training.select) == ("sum", "dev-loss")
    assert (config.model.head, config.model.freeze_encoder, config.model.lora) == ("transformer", False, None)


def test_what_is_written_reads_the_same(tmp_path):
    config = parse_config({"dataset": "ž", "model": {"lora": {"rank": 4}}, "optimizer": {"betas": [0.9, 0.98]}})
    config.write(tmp_path / "config.yaml")
    assert read_config(tmp_path / "config.yaml") == config
    written = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert written["training"]["batches_per_epoch"] == 1200, "defaults are written too"


def test_the_head_of_mel_small_is_written_as_it_is_built(tmp_path):
    parse_config({"dataset": "a", "model": {"encoder": "mel-small"}}).write(tmp_path / "config.yaml")
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())["model"]["head"]
    assert written == build("mel-small", vocabulary_size=4).settings.head == "linear"


def test_weights_that_would_never_change_are_rejected():
    values = {"dataset": "a", "training": {"epochs": 2, "batches_per_epoch": 8}}
    assert parse_config(values | {"objective": {"warmup_batches": 15}}).objective.warmup_batches == 15
    with pytest.raises(ValueError, match=r"objective\.warmup_batches is 16, but the run has only 16 batches"):
        parse_config(values | {"objective": {"warmup_batches": 16}})


def test_numbers_may_be_written_as_in_papers(tmp_path):
    (tmp_path / "config.yaml").write_text("dataset: set1\nobjective: {step_size: 1e-3}\n")
    assert read_config(tmp_path / "config.yaml").objective.step_size == 1e-3


def test_overrides_hold_over_the_file():
    config = parse_config(
        {"dataset": "a", "seed": 1}, ["seed=2", "model.lora.rank=3", "optimizer.clip_norm=null", "dataset=b"]
    )
    assert (config.seed, config.model.lora.rank, config.optimizer.clip_norm, str(config.dataset)) == (2, 3, None, "b")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "configuration: dataset: missing."),
        ({"dataset": "a", "sed": 1}, "sed: unknown key; did you mean seed? The keys are dataset, seed, model"),
        (
            {"dataset": "a", "model": {"lora": {"rnk": 1}}},
            "model.lora.rnk: unknown key; did you mean rank? The keys are rank",
        ),
        ({"dataset": "a", "training": {"epochs": "many"}}, "training.epochs: input should be a valid integer"),
        ({"dataset": "a", "training": {"epochs": 0}}, "training.epochs: input should be greater than 0; got 0"),
        (
            {"dataset": "a", "batches": {"balance": 2}},
            "batches.balance: input should be less than or equal to 1",
        ),
        ({"dataset": "a", "objective": {"step_size": float("nan")}}, "objective.step_size: input should be"),
        (
            {"dataset": "a", "objective": {"name": "dro"}},
            "objective.name: must be one of erm, group-dro, ctc-dro-unsmoothed, ctc-dro; got 'dro'",
        ),
        ({"dataset": "a", "objective": 7}, "objective: input should be a valid dictionary"),
        ({"dataset": "a", "model": {"freeze_encoder": True, "lora": {}}}, "model: `freeze_encoder` and `lora` cannot"),
        ({"dataset": "a", "model": {"encoder": "mel-small", "lora": {}}}, "model: `encoder` mel-small is trained from"),
        (
            {"dataset": "a", "model": {"encoder": "mel-small", "head": "transformer"}},
            "model: `encoder` mel-small has a linear head; remove `head: transformer`",
        ),
        (
            {"dataset": "a", "training": {"epochs": 1, "batches_per_epoch": 3}},
            "are 3 batches, fewer than one step",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_path_of_its_key(values, message):
    with pytest.raises(ValueError, match="configuration") as error:
        parse_config(values)
    assert message in str(error.value)


def test_all_faults_are_told_at_once():
    with pytest.raises(ValueError, match="configuration") as error:
        parse_config({"seed": -1, "model": {"head": "big"}})
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("override", ["seed", "=1", "seed.a=1", "model.head=[", "objective.name.x=1"])
def test_overrides_written_wrongly_are_named(override):
    with pytest.raises(ValueError, match="--set"):
        parse_config({"dataset": "a", "seed": 1, "objective": {"name": "erm"}}, [override])


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "", "\x00", "!!python/object/apply:os.system ['true']"])
def test_files_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"config\.yaml: "):
        read_config(tmp_path / "config.yaml")


def test_the_schema_describes_every_key():
    found = Config.model_json_schema()
    sections = found["$defs"]
    assert sections["OptimizerConfig"]["properties"]["accumulate"]["description"].startswith("Batches per step")
    assert set(found["properties"]) == {"dataset", "seed", "model", "objective", "batches", "optimizer", "training"}


def test_settings_that_a_method_does_not_take_are_rejected():
    for objective in ({"name": "group-dro", "signal": "loss_per_character"}, {"name": "erm", "warmup_batches": 9}):
        with pytest.raises(ValueError, match=r"has no effect on .*; remove it, or choose ctc-dro-unsmoothed"):
            parse_config({"dataset": "set1", "objective": objective})
    tuned = {"name": "erm", "step_size": 1e-3, "smoothing": 0.5}  # left over from another method
    assert parse_config({"dataset": "set1", "objective": tuned}).objective.name == "erm"


def test_aliases_are_rejected(tmp_path):
    (tmp_path / "config.yaml").write_text("dataset: &a [1]\nmodel: [*a, *a]\n")
    with pytest.raises(ValueError, match="aliases such as \\*name are not supported"):
        read_config(tmp_path / "config.yaml")
