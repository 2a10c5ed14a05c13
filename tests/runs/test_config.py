"""Configurations: the paper's defaults, overrides, and what is refused."""

import pytest
import yaml

from ctcdro.models.recognizer import build
from ctcdro.runs.config import Config, parse_config, read_config


def test_defaults_are_the_papers():
    config = parse_config({"dataset": "set1"})
    assert (config.training.num_batches, config.training.validate_every_batches) == (40 * 1200, 1200)
    assert (config.optimizer.batches_per_step, config.optimizer.learning_rate) == (16, 1e-4)
    assert (config.sampling.batch_duration, config.sampling.sampler) == (50.0, "length-matched")
    assert (config.objective.name, config.objective.step_size, config.objective.smoothing) == ("ctc-dro", 1e-4, 0.1)
    assert (config.objective.reduction, config.training.best_model_by) == ("sum", "dev-loss")
    assert (config.model.head, config.model.freeze_encoder, config.model.lora) == ("transformer", False, None)


def test_what_is_written_reads_the_same(tmp_path):
    config = parse_config({"dataset": "ž", "model": {"lora": {"rank": 4}}, "optimizer": {"betas": [0.9, 0.98]}})
    config.write(tmp_path / "config.yaml")
    assert read_config(tmp_path / "config.yaml") == config
    written = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert written["training"]["validate_every_batches"] == 1200, "defaults are written too"


def test_the_head_of_mel_small_is_written_as_it_is_built(tmp_path):
    parse_config({"dataset": "a", "model": {"encoder": "mel-small"}}).write(tmp_path / "config.yaml")
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())["model"]["head"]
    assert written == build("mel-small", vocabulary_size=4).settings.head == "linear"


def test_weights_that_would_never_change_are_rejected():
    values = {"dataset": "a", "training": {"num_batches": 16, "validate_every_batches": 8}}
    assert parse_config(values | {"objective": {"warmup_batches": 15}}).objective.warmup_batches == 15
    with pytest.raises(ValueError, match=r"objective\.warmup_batches: 16 is not less than `training\.num_batches`, 16"):
        parse_config(values | {"objective": {"warmup_batches": 16}})


def test_numbers_may_be_written_as_in_papers(tmp_path):
    (tmp_path / "config.yaml").write_text("dataset: set1\nobjective: {step_size: 1e-3}\n")
    assert read_config(tmp_path / "config.yaml").objective.step_size == 1e-3


def test_overrides_hold_over_the_file():
    config = parse_config(
        {"dataset": "a", "seed": 1}, ["seed=2", "model.lora.rank=3", "optimizer.max_grad_norm=null", "dataset=b"]
    )
    assert (config.seed, config.model.lora.rank, config.optimizer.max_grad_norm, config.dataset.name) == (
        2,
        3,
        None,
        "b",
    )


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
    assert sections["OptimizerConfig"]["properties"]["batches_per_step"]["description"].startswith(
        "Batches per optimizer step"
    )
    assert set(found["properties"]) == {
        "dataset",
        "seed",
        "model",
        "objective",
        "data",
        "sampling",
        "optimizer",
        "training",
    }


def test_settings_that_a_method_does_not_take_are_rejected():
    for objective in ({"name": "group-dro", "signal": "loss_per_character"}, {"name": "erm", "warmup_batches": 9}):
        with pytest.raises(
            ValueError, match=r"has no effect with .*; remove it, or set `name` to ctc-dro-unsmoothed or ctc-dro"
        ):
            parse_config({"dataset": "set1", "objective": objective})
    tuned = {"name": "erm", "step_size": 1e-3, "smoothing": 0.5}  # left over from another method
    assert parse_config({"dataset": "set1", "objective": tuned}).objective.name == "erm"


def test_aliases_are_rejected(tmp_path):
    (tmp_path / "config.yaml").write_text("dataset: &a [1]\nmodel: [*a, *a]\n")
    with pytest.raises(ValueError, match="aliases such as \\*name are not supported"):
        read_config(tmp_path / "config.yaml")
