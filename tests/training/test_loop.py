"""Training on a small dataset: stopped, killed and resumed."""

import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import in_process
import pytest
import torch
from exact_runs import Launch
from tones import write_dataset

from ctcdro.models.recognizer import load
from ctcdro.runs.config import OptimizerConfig, parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.speech.audio import AudioError
from ctcdro.speech.manifest import Manifest
from ctcdro.storage.json_files import read_log
from ctcdro.training.checkpoints import publish_best_model
from ctcdro.training.loop import train, train_step
from ctcdro.training.optimizer import learning_rate_factor
from ctcdro.training.setup import set_up_run
from ctcdro.training.validation import validate

# Sums by several threads may differ in the last bit.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"))


def config(dataset, *overrides):
    """Twelve steps, a validation every four."""
    values = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small", "head": "linear"},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 4.0},
        "optimizer": {"learning_rate": 2e-3, "batches_per_step": 2},
        "training": {"num_batches": 24, "validate_every_batches": 8, "checkpoint_every_steps": 3, "trackers": []},
    }
    return parse_config(values, overrides)


def ended(folder):
    """The bytes of the results of a run."""
    folder = RunFolder(folder)
    files = sorted(path for path in folder.model.rglob("*") if path.is_file())
    files += [folder.group_weights, folder.diagnosis, folder.suspicious]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def uninterrupted(dataset, one_thread, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    train(config(dataset), folder)
    return ended(folder)


def test_a_run_leaves_what_it_promises(dataset, tmp_path):
    told = []
    folder = train(config(dataset), tmp_path / "run", callback=told.append)
    assert {"config.yaml", "run.json", "log.jsonl", "group_weights.jsonl", "vocab.json", "checkpoints", "model"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    weights = list(read_log(folder.group_weights))
    assert [record["step"] for record in weights] == list(range(1, 13))
    assert all(sum(record["weights"].values()) == pytest.approx(1, abs=1e-6) for record in weights)
    assert set(weights[0]["losses"]) == {"aaa", "bbb"}
    validations = [record for record in read_log(folder.log) if "validation" in record]
    assert [record["step"] for record in validations] == [4, 8, 12]
    assert all(set(record["cer"]) == {"aaa", "bbb"} for record in validations)
    assert len(told) == 12 + 3
    assert json.loads(folder.run.read_text())["steps"] == 12


def test_the_same_configuration_gives_the_same_bytes(dataset, tmp_path, uninterrupted):
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


def test_workers_change_nothing(dataset, tmp_path, uninterrupted):
    train(config(dataset, "data.num_workers=2"), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


def test_a_finished_run_is_not_overwritten(dataset, tmp_path):
    short = config(dataset, "training.num_batches=8")
    train(short, tmp_path / "run")
    with pytest.raises(ValueError, match="already contains a finished run"):
        train(short, tmp_path / "run")


class InterruptedRunError(Exception):
    pass


def interrupted(one, folder, step=5):
    """An interrupted run."""

    def fail(record):
        if record["step"] == step:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(one, folder, callback=fail)


def test_a_run_of_another_configuration_is_not_resumed(dataset, tmp_path):
    interrupted(config(dataset), tmp_path)
    with pytest.raises(ValueError, match=r"seed: 0 → 1"):
        train(config(dataset, "seed=1"), tmp_path)


def test_a_mistake_at_the_first_start_can_be_corrected(dataset, tmp_path, uninterrupted):
    with pytest.raises(ValueError, match=r"nowhere/train\.jsonl: no such file\. Create the dataset"):
        train(config("nowhere"), tmp_path / "run")
    interrupted(config(dataset, "seed=1"), tmp_path / "run", step=1)
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_run_is_not_resumed_on_other_data(tmp_path, split):
    data = write_dataset(tmp_path / "data", num_train=8)
    interrupted(config(data), tmp_path / "run")
    manifest = data / f"{split}.jsonl"
    manifest.write_text(manifest.read_text().replace('"text": "a', '"text": "z'))
    with pytest.raises(ValueError, match=rf"Cannot resume .*{split}\.jsonl changed since the run started"):
        train(config(data), tmp_path / "run")


def test_a_folder_takes_one_run_at_a_time(dataset, tmp_path):
    def another(record):
        launch = Launch(tmp_path / "run" / "config.yaml", tmp_path / "run")
        assert launch.wait() == [1]
        assert "another process is writing to this folder" in launch.errors
        raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(config(dataset), tmp_path / "run", callback=another)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_missing_audio_stops_a_run_before_its_first_step(tmp_path, split):
    data = write_dataset(tmp_path / "data", num_train=8)
    gone = sorted(data.glob(f"*-{split}-*.wav"))[1:3]
    for path in gone:
        path.unlink()
    config(data).write(tmp_path / "config.yaml")
    done = in_process.run("train", tmp_path / "config.yaml", "--out", tmp_path / "run")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert re.match(
        rf"ctcdro: .*{split}\.jsonl:\d+: .*{gone[0].name}: no such file; the audio of 2 utterances is", line
    )
    assert not (tmp_path / "run" / "log.jsonl").exists()
    train(config(data, "data.on_bad_audio=skip", "training.num_batches=8"), tmp_path / "skipping")


def test_unreadable_audio_is_skipped_and_reported(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=8)
    for path in sorted(data.glob("aaa-train-*.wav"))[:7]:
        path.write_bytes(b"RIFF")
    run = train(config(data, "data.on_bad_audio=skip", "sampling.batch_duration=1.0"), tmp_path / "run")
    told = [line for record in read_log(run.log) for line in record.get("skipped", [])]
    assert told
    assert all("aaa-train" in line for line in told)


def test_a_run_without_any_readable_audio_ends_with_a_message(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=4)
    for path in data.glob("*-train-*.wav"):
        path.write_bytes(b"RIFF")
    with pytest.raises(
        AudioError, match=r"all [0-9]+ batches of 10 epochs were skipped. The first error: .*train.jsonl:"
    ):
        train(config(data, "data.on_bad_audio=skip"), tmp_path / "run")


def test_the_learning_rate_rises_in_warmup_and_then_falls_to_zero():
    settings = OptimizerConfig(lr_schedule="linear", warmup_fraction=0.2)
    factors = [learning_rate_factor(settings, step, total=10) for step in (0, 1, 2, 6, 10)]
    assert factors == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0])


def test_the_logged_learning_rate_is_that_of_the_step(dataset, tmp_path):
    one = config(dataset, "optimizer.lr_schedule=linear", "optimizer.learning_rate=1.2e-3")
    run = train(one, tmp_path / "run")
    told = [record["learning_rate"] for record in read_log(run.log) if "learning_rate" in record]
    assert told == pytest.approx([1e-4 * left for left in range(12, 0, -1)])


def test_a_signal_to_all_processes_spares_the_workers_that_the_step_needs(dataset, tmp_path, uninterrupted):
    one = config(dataset, "data.num_workers=2")
    one.write(tmp_path / "config.yaml")
    command = [sys.executable, "-m", "ctcdro", "train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run")]
    log = tmp_path / "run" / "log.jsonl"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=ONE_THREAD)
    with process:
        while process.poll() is None and not (log.exists() and log.read_text()):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    assert process.returncode in (0, 130), told  # it may have finished
    if process.returncode == 130:
        assert any((tmp_path / "run" / "checkpoints").iterdir())
        train(one, tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("step", [1, 4, 11])
def test_a_run_that_fails_resumes_to_the_same_bytes(dataset, tmp_path, uninterrupted, step):
    def fail(record):
        if record["step"] == step:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(config(dataset), tmp_path / "run", callback=fail)
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


def test_a_damaged_checkpoint_costs_some_steps_and_nothing_else(dataset, tmp_path, uninterrupted):
    def fail(record):
        if record["step"] == 7:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(config(dataset), tmp_path / "run", callback=fail)
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    (newest / "tensors.safetensors").write_bytes(b"torn")
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_after_a_step_with_a_checkpoint(dataset, tmp_path, uninterrupted, number):
    def send(record):
        if record["step"] == 5:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        train(config(dataset), tmp_path / "run", callback=send)
    assert (tmp_path / "run" / "checkpoints" / "000000005").exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


def test_weights_stay_even_during_warm_up(dataset, tmp_path):
    held = train(config(dataset, "objective.warmup_batches=8"), tmp_path / "held")
    plain = train(config(dataset, "objective.name=erm"), tmp_path / "plain")
    weights = [record["weights"]["aaa"] for record in read_log(held.group_weights)]
    assert weights[:4] == [0.5] * 4
    assert 0.5 not in weights[4:]
    losses = [[record["loss"] for record in read_log(run.log) if "loss" in record] for run in (held, plain)]
    assert losses[0][:5] == pytest.approx(losses[1][:5], rel=1e-6)
    assert losses[0][5:] != losses[1][5:]


@pytest.mark.parametrize("num_kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(dataset, tmp_path, uninterrupted, num_kills):
    config(dataset).write(tmp_path / "config.yaml")
    run = RunFolder(tmp_path / "run")
    moments = random.Random(0)
    for _ in range(num_kills):
        before = run.log.stat().st_mtime_ns if run.log.exists() else None
        launch = Launch(tmp_path / "config.yaml", run.path)
        while launch.is_running and not (run.log.exists() and run.log.stat().st_mtime_ns != before):
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.3))
        launch.kill()
    if not run.is_finished:
        Launch(tmp_path / "config.yaml", run.path).finish()
    assert ended(run.path) == uninterrupted


def test_a_full_disk_ends_a_run_with_a_message_and_loses_nothing(dataset, tmp_path, uninterrupted):
    config(dataset).write(tmp_path / "config.yaml")
    command = [sys.executable, "-m", "ctcdro", "train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run")]

    interrupted(config(dataset), tmp_path / "run")

    def limit():  # files end at 4 MB, as on a full disk; a checkpoint has 8
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))

    done = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, preexec_fn=limit)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["000000003", "000000004"]
    train(config(dataset), tmp_path / "run")
    assert ended(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("name", ["erm", "group-dro", "ctc-dro-unsmoothed"])
def test_every_objective_trains(dataset, tmp_path, name):
    folder = train(config(dataset, f"objective.name={name}", "training.num_batches=8"), tmp_path / "run")
    weights = [record["weights"] for record in read_log(folder.group_weights)]
    assert all(record["losses"]["aaa"] > 0 for record in read_log(folder.group_weights))
    assert (len({tuple(one.values()) for one in weights}) == 1) == (name == "erm")


def test_weights_can_follow_the_loss_per_character(dataset, tmp_path):
    run = set_up_run(config(dataset, "objective.signal=loss_per_character"), RunFolder(tmp_path / "run"))
    calls = []
    run.objective.register_forward_pre_hook(lambda module, arguments: calls.append(arguments))
    train_step(run)
    manifest = Manifest.read(dataset / "train.jsonl")
    texts = {len(utterance.text) for utterance in manifest}
    assert run.objective.needs_characters
    for _, _, num_characters in calls:
        assert set(num_characters.tolist()) <= texts  # without the token of the language


@pytest.mark.parametrize("sampler", ["similar-length", "group-uniform"])
def test_every_sampler_trains_and_resumes(dataset, tmp_path, sampler):
    short = config(dataset, f"sampling.sampler={sampler}", "sampling.batch_duration=50", "training.num_batches=8")

    def fail(record):
        if record["step"] == 4 and "validation" not in record:
            raise InterruptedRunError

    train(short, tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        train(short, tmp_path / "run", callback=fail)
    train(short, tmp_path / "run")
    assert ended(tmp_path / "run") == ended(tmp_path / "whole")


def test_a_gradient_that_is_not_finite_stops_the_run_and_names_the_step(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(FloatingPointError, match="Step 1: the gradient norm is"):
        train(config(dataset), tmp_path / "run")


def test_a_limit_on_the_gradient_keeps_the_weights_of_the_groups(dataset, tmp_path):
    """In steps of one batch that are all clipped."""
    limit = 1e-3
    overrides = ("optimizer.batches_per_step=1", "objective.step_size=0", f"optimizer.max_grad_norm={limit}")
    run = set_up_run(config(dataset, *overrides), RunFolder(tmp_path / "run"))
    run.objective.log_weights.copy_(torch.tensor([0.9, 0.1]).log())
    norms = []
    run.optimizer.register_step_pre_hook(
        lambda *_: norms.append(torch.nn.utils.get_total_norm([one.grad for one in run.recognizer.parameters()]).item())
    )
    records = [train_step(run) for _ in range(4)]
    groups = [next(name for name, loss in record["losses"].items() if loss is not None) for record in records]
    assert set(groups) == {"aaa", "bbb"}
    assert all(record["gradient_norm"] > limit * 1.8 for record in records)
    assert norms == pytest.approx([limit * {"aaa": 1.8, "bbb": 0.2}[group] for group in groups], rel=1e-4)


def test_a_model_of_an_earlier_configuration_is_never_the_result(dataset, tmp_path):
    """A killed run has left its best model and no checkpoint; in the next one every validation diverges."""
    train(config(dataset, "training.num_batches=8"), tmp_path / "earlier")
    run = set_up_run(config(dataset), RunFolder(tmp_path / "run"))
    shutil.copytree(tmp_path / "earlier" / "model", run.folder.best)
    with pytest.raises(ValueError, match="the development loss was never finite"):
        publish_best_model(run)
    assert not run.folder.model.exists()


@pytest.mark.parametrize("best_model_by", ["dev-loss", "worst-cer"])
def test_a_diverged_model_is_never_the_best(dataset, tmp_path, best_model_by):
    run = set_up_run(config(dataset, f"training.best_model_by={best_model_by}"), RunFolder(tmp_path / "run"))
    weight = run.recognizer.head.output.weight
    intact = weight.detach().clone()
    records = []
    for value in (torch.nan, intact, torch.nan):
        weight.data[:] = value
        validate(run, records.append)
    assert [record["is_best"] for record in records] == [False, True, False]
    assert [math.isnan(record["dev_loss"]) for record in records] == [True, False, True]
    best, _ = load(run.folder.best)
    assert torch.equal(best.head.output.weight, intact)


def test_the_last_interval_may_be_shorter_and_is_validated(dataset, tmp_path):
    folder = train(config(dataset, "training.num_batches=20"), tmp_path / "run")
    validations = [record for record in read_log(folder.log) if "validation" in record]
    assert [(record["validation"], record["step"]) for record in validations] == [(1, 4), (2, 8), (3, 10)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_device_is_named_before_anything_is_written(dataset, tmp_path):
    with pytest.raises(ValueError, match="--device cuda: PyTorch finds no GPU"):
        train(config(dataset), tmp_path / "run", device="cuda")
    assert list(tmp_path.iterdir()) == []


def test_early_stopping_ends_after_validations_that_bring_nothing(dataset, tmp_path):
    patient = config(
        dataset, "training.early_stopping_patience=1", "optimizer.learning_rate=1e-12", "training.num_batches=72"
    )
    folder = train(patient, tmp_path / "run")
    validations = [record for record in read_log(folder.log) if "validation" in record]
    assert not validations[-1]["is_best"]
    assert all(record["is_best"] for record in validations[:-1])
    assert len(validations) < 9


def test_an_utterance_longer_than_a_batch_is_named_by_its_manifest_line(dataset, tmp_path, caplog):
    set_up_run(config(dataset, "sampling.batch_duration=0.5"), RunFolder(tmp_path / "run"), device=torch.device("cpu"))
    line = int(Manifest.read(dataset / "train.jsonl").durations.argmax()) + 1
    assert f"The longest, {dataset / 'train.jsonl'}:{line}, has" in caplog.text


def test_processes_must_divide_the_batches_of_a_step(dataset, tmp_path):
    config(dataset, "optimizer.batches_per_step=3").write(tmp_path / "config.yaml")
    launch = Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2)
    assert 0 not in launch.wait()
    assert "optimizer.batches_per_step must be a multiple of the number of processes, 2; got 3" in launch.errors
    assert "Add --set optimizer.batches_per_step=4." in launch.errors


def test_a_process_may_have_no_development_data(dataset, tmp_path):
    one = config(dataset, "sampling.batch_duration=20", "training.num_batches=2")
    one.write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2).finish()
    assert RunFolder(tmp_path / "run").is_finished


def test_two_processes_of_torchrun_have_the_weights_of_one(dataset, tmp_path):
    # Of one step, all batches have the same model; with a tiny learning rate, so have all steps, and weights can be
    # compared with those of a process that saw all batches.
    both = config(dataset, "optimizer.learning_rate=1e-9", "optimizer.batches_per_step=4", "training.num_batches=16")
    both.write(tmp_path / "config.yaml")
    train(both, tmp_path / "one")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "ctcdro"]
    command += ["train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    one, two = (list(read_log(Path(tmp_path / name / "group_weights.jsonl"))) for name in ("one", "two"))
    assert len(one) == len(two) > 2
    for here, there in zip(one, two, strict=True):
        assert there["weights"] == pytest.approx(here["weights"], rel=1e-4)
        assert there["losses"] == pytest.approx(here["losses"], rel=1e-4)
