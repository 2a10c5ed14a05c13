"""Configurations: the paper's defaults, overrides, and what is refused."""

import json

import pytest
import yaml

from ctcdro.models.recognizer import build
from ctcdro.runs.config import parse_config, read_config, schema


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


@pytest.mark.parametrize("accumulate", [1, 4])
def test_weights_that_would_never_change_are_refused(accumulate):
    values = {
        "dataset": "a",
        "optimizer": {"accumulate": accumulate},
        "training": {"epochs": 2, "batches_per_epoch": 8},
    }
    last = 16 - accumulate
    assert parse_config(values | {"objective": {"start_after": last}}).objective.start_after == last
    with pytest.raises(ValueError, match=rf"objective.start_after is {last + 1} batches.*set it to {last} or less"):
        parse_config(values | {"objective": {"start_after": last + 1}})


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
        ({"dataset": "a", "sed": 1}, "sed: unknown key; there are dataset, seed, model"),
        (
            {"dataset": "a", "model": {"lora": {"rnk": 1}}},
            "model.lora.rnk: unknown key; there are rank",
        ),
        ({"dataset": "a", "training": {"epochs": "many"}}, "training.epochs: input should be a valid integer"),
        ({"dataset": "a", "training": {"epochs": 0}}, "training.epochs: input should be greater than 0; got 0"),
        (
            {"dataset": "a", "batches": {"balance": 2}},
            "batches.balance: input should be less than or equal to 1",
        ),
        ({"dataset": "a", "objective": {"step_size": float("nan")}}, "objective.step_size: input should be"),
        ({"dataset": "a", "objective": {"name": "dro"}}, "objective.name: input should be 'ctc-dro'"),
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
    found = json.loads(schema())
    sections = found["$defs"]
    assert sections["Optimizer"]["properties"]["accumulate"]["description"].startswith("Batches of one step")
    assert set(found["properties"]) == {"dataset", "seed", "model", "objective", "batches", "optimizer", "training"}


def test_group_dro_cannot_compare_losses_a_label():
    with pytest.raises(
        ValueError, match="`compare_by` label is of ctc-dro and ctc-dro-unsmoothed; `name` is group-dro"
    ):
        parse_config({"dataset": "set1", "objective": {"name": "group-dro", "compare_by": "label"}})
    with pytest.raises(ValueError, match="`start_after` is of ctc-dro and ctc-dro-unsmoothed with reduction sum"):
        parse_config({"dataset": "set1", "objective": {"reduction": "mean", "start_after": 100}})
