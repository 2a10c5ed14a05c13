"""The guard of a run: the curve of its baseline, exact restarts, the budget at the end, and wrong baselines."""

import shutil

import exact_runs
import pytest
import tiny_encoders
import torch
from exact_runs import interrupt, outcome
from tones import write_dataset

import ctcdro
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import append_line, read_json, read_log
from ctcdro.training.guard import read_guard
from ctcdro.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture
def baseline(dataset, tmp_path):
    """A finished run with two batches per step and three validations; the second selected its model."""
    return write_baseline(tmp_path / "baseline", exact_runs.make_config(dataset, "mel-small", None))


def write_baseline(path, config):
    folder = RunFolder(path)
    folder.model.mkdir(parents=True)
    config.write(folder.config)
    for step, aaa, bbb in ((3, 5.0, 0.04), (6, 4.0, 0.02), (9, 4.5, 0.02)):
        append_line(folder.log, {"step": step, "loss": 1.0})
        record = {"step": step, "validation": step // 3, "cer": {"aaa": aaa, "bbb": bbb}, "is_best": step <= 6}
        append_line(folder.log, record)
    return folder


def guarded(dataset, baseline, *overrides, encoder="mel-small"):
    model = None if encoder == "mel-small" else "fine-tuning"
    settings = ("objective.name=error-weighted", f"objective.baseline={baseline.path}")
    return exact_runs.make_config(dataset, encoder, model, *settings, *overrides)


def test_the_curve_of_the_baseline_is_interpolated_by_batches(dataset, baseline):
    guard = read_guard(guarded(dataset, baseline), ["aaa", "bbb"])
    for num_batches, expected in ((0, 5.0), (6, 5.0), (9, 4.5), (12, 4.0), (15, 4.25), (18, 4.5), (99, 4.5)):
        assert guard.cer_at(num_batches)["aaa"] == pytest.approx(expected)
    assert guard.selected_cer == {"aaa": 4.0, "bbb": 0.02}
    assert read_guard(exact_runs.make_config(dataset, "mel-small", None), ["aaa", "bbb"]) is None


@pytest.mark.parametrize("signal", ["loss_per_character", "error_rate"])
def test_a_guarded_run_with_dropout_resumes_exactly_and_writes_its_budget(dataset, baseline, tmp_path, signal):
    encoder = tiny_encoders.write_with_dropout(tmp_path / "encoder")
    config = guarded(
        dataset, baseline, f"objective.signal={signal}", "objective.max_relative_loss=0.1", encoder=encoder
    )
    folder = train(config, tmp_path / "whole")
    for step in (1, 4, 7):
        interrupt(config, tmp_path / "run", step)
    assert outcome(train(config, tmp_path / "run").path) == outcome(folder.path)
    validations = [record for record in read_log(folder.log) if "validation" in record]
    assert [record["baseline_cer"]["bbb"] for record in validations] == [0.04, 0.02, 0.02]
    use = ctcdro.budget_use(*(by_language(validations[-1], key) for key in ("whole_dev_cer", "baseline_cer")))
    assert use[1] == 2, "bbb is far over its budget"
    weights = [record["weights"] for record in read_log(folder.group_weights)]
    assert weights[2]["bbb"] < 0.7 < weights[-1]["bbb"], "twice the rate of the worst group, to the power of 1.5"
    budget = read_json(folder.budget)
    assert (budget["max_relative_loss"], budget["baseline_cer"]) == (0.1, {"aaa": 4.0, "bbb": 0.02})
    assert budget["cer"] == [record["whole_dev_cer"] for record in validations if record["is_best"]][-1]


def by_language(record, key):
    return torch.tensor([record[key]["aaa"], record[key]["bbb"]])


def test_a_baseline_that_changed_since_the_run_started_is_rejected(dataset, baseline, tmp_path):
    config = guarded(dataset, baseline)
    interrupt(config, tmp_path / "run", 4)
    append_line(baseline.log, {"step": 12, "validation": 4, "cer": {"aaa": 0.1, "bbb": 0.1}})
    with pytest.raises(ValueError, match=r"baseline/log\.jsonl changed since the run started"):
        train(config, tmp_path / "run")


def test_baselines_that_do_not_fit_are_rejected_with_a_remedy(dataset, baseline, tmp_path):
    config = guarded(dataset, baseline)
    with pytest.raises(ValueError, match=r"log\.jsonl has no CER of ccc; it has aaa, bbb\. Train a baseline"):
        read_guard(config, ["aaa", "bbb", "ccc"])
    baseline.log.unlink()
    with pytest.raises(ValueError, match=r"objective\.baseline: .*log\.jsonl has no validations"):
        read_guard(config, ["aaa", "bbb"])
    split = exact_runs.make_config(
        dataset, "mel-small", None, "objective.name=error-weighted", "objective.signal=error_rate"
    )
    other = exact_runs.make_config(tmp_path / "other", "mel-small", None)
    for number, (run, message) in enumerate(
        [(split, "validated on one half of the development set"), (other, "was trained on .*other, but `dataset` is")]
    ):
        folder = write_baseline(tmp_path / str(number), run)
        with pytest.raises(ValueError, match=message):
            read_guard(guarded(dataset, folder), ["aaa", "bbb"])
    shutil.rmtree(baseline.model)
    with pytest.raises(ValueError, match=r"objective\.baseline: .*the run has no model yet"):
        read_guard(config, ["aaa", "bbb"])
    baseline.config.unlink()
    with pytest.raises(ValueError, match=r"objective\.baseline: .*not the folder of a run"):
        read_guard(config, ["aaa", "bbb"])
