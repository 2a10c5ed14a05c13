"""`ctcdro train`, `evaluate` and `transcribe` on one small run."""

import json
from types import SimpleNamespace

import pytest
import yaml
from in_process import run
from tones import write_dataset

from ctcdro.runs.folder import RunFolder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run, and what `train` printed."""
    folder = tmp_path_factory.mktemp("run")
    write_dataset(folder / "data", num_train=4, num_dev=3)
    config = {
        "dataset": "data",
        "model": {"encoder": "mel-small"},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 3.0},
        "optimizer": {"batches_per_step": 1},
        "training": {"num_batches": 2, "validate_every_batches": 1, "trackers": []},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    done = run("train", folder / "run.yaml", "--out", folder / "run", "--device", "cpu")
    return SimpleNamespace(folder=folder, run=folder / "run", config=folder / "run.yaml", done=done)


def test_train_prints_a_line_per_validation_and_the_model(trained):
    assert trained.done.returncode == 0, trained.done.stderr
    assert trained.done.stdout == f"Model: {RunFolder(trained.run).model}\n"
    lines = [line for line in trained.done.stderr.splitlines() if line.startswith("validation ")]
    assert [line.split(":")[0] for line in lines] == ["validation 1", "validation 2"]
    assert "Ghotuo (aaa)" in lines[0] or "Barai (bbb)" in lines[0]


def test_train_prints_the_diagnosis_next_to_the_validations(trained):
    lines = trained.done.stderr.splitlines()
    assert any(line.startswith("language") and line.rstrip().endswith("verdict") for line in lines)
    assert any(line.startswith("Worst language: ") for line in lines)
    assert "Not learned yet: " in trained.done.stderr


def test_a_quiet_run_prints_only_the_model(trained, tmp_path):
    done = run("train", trained.config, "--out", tmp_path / "run", "--quiet")
    assert done.stdout == f"Model: {tmp_path / 'run' / 'model'}\n"
    assert done.stderr == ""


def test_train_prints_that_the_number_of_batches_is_rounded(trained, tmp_path):
    changes = ("--set", "optimizer.batches_per_step=2", "--set", "training.num_batches=3")
    done = run("train", trained.config, "--out", tmp_path / "run", *changes)
    assert done.stderr.startswith("training.num_batches: 3 is rounded down to 2, ")
    assert len((tmp_path / "run" / "group_weights.jsonl").read_text().splitlines()) == 1


def test_a_finished_run_is_not_overwritten(trained):
    done = run("train", trained.config, "--out", trained.run)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "already contains a finished run. Choose another --out, or delete the folder." in line


def test_evaluate_prints_what_score_prints(trained):
    done = run("evaluate", trained.run, "--split", "dev", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "with 95% confidence intervals of the CER" in done.stdout
    assert "Ghotuo (aaa)" in done.stdout
    predictions = trained.run / "predictions" / "dev.jsonl"
    scored = run("score", predictions, predictions)
    assert done.stdout.splitlines()[:-2] == scored.stdout.splitlines()[1:-1]
    assert f"Predictions: {predictions}\n" in done.stdout


@pytest.mark.parametrize("scoring", ["plain", "paper"])
def test_evaluate_prints_the_same_json_as_score(trained, scoring):
    options = ["--scoring", scoring, "--json"]
    evaluated = json.loads(run("evaluate", trained.run, "--split", "dev", *options).stdout)
    predictions = trained.run / "predictions" / "dev.jsonl"
    assert evaluated == json.loads(run("score", predictions, predictions, *options).stdout)
    assert evaluated["intervals"]["languages"].keys() == {"aaa", "bbb"}


def test_a_split_that_does_not_exist_gets_the_list_of_splits(trained, tmp_path):
    done = run("evaluate", trained.run, "--split", "validation")
    assert done.returncode == 2
    assert "validation.jsonl not found. Splits of this dataset: dev, test, train." in done.stderr
    done = run("evaluate", trained.run, "--dataset", tmp_path)
    assert "specify its folder with --dataset (`dataset` in Python)" in done.stderr


@pytest.mark.parametrize(("on_error", "status"), [("fail", 2), ("skip", 0)])
def test_evaluate_can_skip_audio_that_cannot_be_read(trained, tmp_path, on_error, status):
    dataset = write_dataset(tmp_path / "data", num_train=1, num_dev=2)
    (dataset / "aaa-dev-0.wav").write_bytes(b"RIFF")
    done = run("evaluate", trained.run, "--split", "dev", "--dataset", dataset, "--on-error", on_error)
    assert done.returncode == status
    assert "aaa-dev-0.wav" in done.stderr
    if status == 0:
        assert "ctcdro: warning: 1 of 4 utterances could not be read" in done.stderr


def test_transcribe_prints_the_name_of_the_language_and_json_its_code(trained):
    audio = trained.folder / "data" / "aaa-test-0.wav"
    path, language, text = run("transcribe", trained.run, audio, "--device", "cpu").stdout.rstrip("\n").split("\t")
    record = json.loads(run("transcribe", trained.run, audio, "--format", "json").stdout)
    assert (path, text) == (str(audio), record["text"]) == (record["path"], text)
    names = {"aaa": "Ghotuo (aaa)", "bbb": "Barai (bbb)", None: "unknown language"}
    assert language == names[record["language"]]
