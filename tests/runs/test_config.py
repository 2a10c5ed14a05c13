"""Configurations: the paper's defaults, overrides, and paths."""

from pathlib import Path

import pytest
import yaml
from cases import case

from ctcdro.models.recognizer import build
from ctcdro.runs.config import parse_config, read_config


def test_defaults_are_the_papers():
    config = parse_config({"dataset": "set1"})
    assert (config.training.num_batches, config.training.validate_every_batches) == (40 * 1200, 1200)
    assert (config.optimizer.batches_per_step, config.optimizer.learning_rate) == (16, 1e-4)
    assert (config.sampling.batch_duration, config.sampler) == (50.0, "length-matched")
    assert (config.objective.name, config.objective.step_size, config.objective.smoothing) == ("ctc-dro", 1e-4, 0.1)
    assert (config.objective.reduction, config.training.best_model_by) == ("sum", "dev-loss")
    assert (config.model.head, config.model.freeze_encoder, config.model.lora) == ("transformer", False, None)


def test_each_objective_has_its_sampler_unless_one_is_named():
    for name, sampler in (("ctc-dro", "length-matched"), ("error-weighted", "adaptive")):
        assert parse_config({"dataset": "set1", "objective": {"name": name}}).sampler == sampler
    named = {"dataset": "set1", "objective": {"name": "error-weighted"}, "sampling": {"sampler": "length-matched"}}
    assert parse_config(named).sampler == "length-matched"


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


def test_spec_augment_is_off_with_a_linear_head_unless_it_is_requested():
    for model, expected in (
        ({}, True),
        ({"head": "linear"}, False),
        ({"encoder": "mel-small"}, False),
        ({"head": "convolution"}, True),
        ({"encoder": "mel-small", "spec_augment": True}, True),
        ({"head": "linear", "spec_augment": True}, True),
        ({"spec_augment": False}, False),
    ):
        with case(model):
            assert parse_config({"dataset": "a", "model": model}).model.spec_augment is expected


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


def test_settings_to_tune_may_stay_when_only_the_objective_is_changed():
    tuned = {"name": "erm", "step_size": 1e-3, "smoothing": 0.5}
    assert parse_config({"dataset": "set1", "objective": tuned}).objective.name == "erm"


@pytest.mark.parametrize("given", ["lang,corpus", "lang, corpus", ["lang", "corpus"]])
def test_groups_may_be_a_list_or_text(given):
    assert parse_config({"dataset": "set1", "data": {"group_by": given}}).data.group_by == ("lang", "corpus")
    assert parse_config({"dataset": "set1"}, ["data.group_by=corpus"]).data.group_by == ("corpus",)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with configurations, a folder with an encoder, and another working directory."""
    for name in ("configs", "encoders/mine", "elsewhere/mine", "elsewhere/mel-small"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def written(path, text):
    path.write_text(text)
    return path


def test_paths_in_a_file_are_relative_to_it(project):
    model = "model: {encoder: ../encoders/mine, freeze_encoder: true, feature_cache_dir: features}"
    config = read_config(written(project / "configs/run.yaml", f"dataset: ../data/set1\n{model}\n"))
    assert config.dataset == project / "data/set1"
    assert config.model.encoder == str(project / "encoders/mine")
    assert config.model.feature_cache_dir == project / "configs/features"


def test_paths_on_the_command_line_are_relative_to_the_working_directory(project):
    overrides = [
        "dataset=data",
        "model.freeze_encoder=true",
        "model.feature_cache_dir=../features",
        "model.encoder=mine",
    ]
    config = read_config(written(project / "configs/run.yaml", "dataset: ../data/set1\n"), overrides)
    assert config.dataset == project / "elsewhere/data"
    assert config.model.feature_cache_dir == project / "features"
    assert config.model.encoder == str(project / "elsewhere/mine")


@pytest.mark.parametrize("encoder", ["mel-small", "facebook/mms-300m"])
def test_names_of_encoders_are_not_paths(project, encoder):
    config = read_config(written(project / "configs/run.yaml", f"dataset: a\nmodel: {{encoder: {encoder}}}\n"))
    assert config.model.encoder == encoder


def test_absolute_paths_and_home_folders_stay(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project / "home"))
    path = written(project / "configs/run.yaml", "dataset: ~/data\n")
    assert read_config(path).dataset == project / "home/data"
    assert read_config(path, ["dataset=/data"]).dataset == Path("/data")


def test_what_is_written_has_absolute_paths(project, monkeypatch):
    config = read_config(written(project / "configs/run.yaml", "dataset: set1\n"))
    config.write(project / "config.yaml")
    monkeypatch.chdir(project)
    assert yaml.safe_load((project / "config.yaml").read_text())["dataset"] == str(project / "configs/set1")
    assert read_config(project / "config.yaml") == config
