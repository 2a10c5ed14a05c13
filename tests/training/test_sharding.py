"""Sharded training on two CPU processes takes the steps of copies and of one process, and resumes exactly."""

import logging
import math
import shutil
import signal
from functools import partial

import exact_runs
import pytest
import tiny_encoders
import torch
from exact_runs import Launch, interrupt, outcome
from tones import write_dataset

from ctcdro.models.saving import WEIGHTS
from ctcdro.runs.config import read_config
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import read_log
from ctcdro.storage.tensors import load_tensors
from ctcdro.training.checkpoint_shards import load_shards
from ctcdro.training.loop import train
from ctcdro.training.sharding import check_launcher

pytestmark = pytest.mark.usefixtures("one_thread")

COMPARED = ("fine-tuning", "LoRA", "frozen")
SHORT = ("training.num_batches=8", "training.validate_every_batches=8", "training.average_last_fraction=0.5")
# Nothing is random, and there are no group weights, which one process updates more often than two.
SAME_ON_ONE = ("objective={name: erm}", "model.head=linear", "training.sharding=full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_thread):
    """The runs of this file, each in a folder with the name of its configuration."""
    folder = tmp_path_factory.mktemp("runs")
    dataset = write_dataset(folder / "dataset", num_train=10, num_dev=2)
    random = partial(exact_runs.make_config, dataset, tiny_encoders.write_with_dropout(folder / "random"))
    plain = exact_runs.make_config(dataset, tiny_encoders.write("wav2vec2", folder / "plain"), None, *SAME_ON_ONE)
    for model in COMPARED:
        random(model, *SHORT).write(folder / f"{model}, copied.yaml")
        random(model, *SHORT, "training.sharding=full").write(folder / f"{model}, sharded.yaml")
    for name in ("one", "two", "one, then two"):
        plain.write(folder / f"{name}.yaml")
    interrupt(plain, folder / "one, then two", 5)  # its last checkpoint is that of step 4
    train(plain, folder / "one")
    launch(folder, "two", *(f"{model}, {way}" for model in COMPARED for way in ("copied", "sharded")))
    random("fine-tuning", *SHORT, "training.sharding=full").write(folder / "killed.yaml")
    killed = Launch(folder / "killed.yaml", folder / "killed", 2, killed_at=3)
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    shutil.copytree(folder / "killed", folder / "two, then one")
    launch(folder, "killed", "one, then two")
    return folder


def launch(folder, *names):
    """Trains runs by two processes."""
    first, *more = ((folder / f"{name}.yaml", folder / name) for name in names)
    Launch(*first, num_processes=2, more=more).finish()


def steps(out):
    return [record for record in read_log(RunFolder(out).log) if "loss" in record]


def weights(out):
    return load_tensors(RunFolder(out).model / WEIGHTS)


def assert_same_steps(one, other):
    for here, there in zip(steps(one), steps(other), strict=True):
        for key in ("loss", "gradient_norm"):
            assert there[key] == pytest.approx(here[key], rel=1e-5)


@pytest.mark.parametrize("model", COMPARED)
def test_parts_of_a_model_take_the_same_steps_as_copies(model, folder):
    copied, sharded = (folder / f"{model}, {way}" for way in ("copied", "sharded"))
    assert_same_steps(copied, sharded)
    expected = weights(copied)
    for name, tensor in weights(sharded).items():
        # Adam takes steps of the learning rate, 1e-3, also where the gradient is nearly zero.
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=2e-4)


def test_two_processes_take_the_same_steps_as_one(folder):
    assert_same_steps(folder / "one", folder / "two")


def test_a_killed_run_resumes_exactly(folder):
    assert outcome(folder / "killed") == outcome(folder / "fine-tuning, sharded")


def test_a_run_of_one_process_continues_on_two_with_the_same_batches(folder):
    assert_same_steps(folder / "one", folder / "one, then two")


def test_a_run_of_two_processes_continues_on_one(folder, tmp_path, caplog):
    shutil.copytree(folder / "two, then one", tmp_path / "run")
    with caplog.at_level(logging.WARNING):
        train(read_config(folder / "killed.yaml"), tmp_path / "run")
    assert "number of processes changed (2 → 1). Weights, optimizer and group weights" in caplog.text
    assert all(math.isfinite(step["loss"]) for step in steps(tmp_path / "run"))


def test_parts_in_a_checkpoint_form_the_whole_model(folder):
    checkpoint = load_shards(RunFolder(folder / "two").checkpoints, {})
    saved = weights(folder / "two")
    last = [record for record in read_log(RunFolder(folder / "two").log) if "is_best" in record][-1]
    assert last["is_best"]  # so that the selected model is that of the checkpoint
    assert {name: tensor for name, tensor in checkpoint.tensors.items() if name.startswith("model/")}.keys() == {
        f"model/{name}" for name in saved
    }
    assert all(torch.equal(checkpoint.tensors[f"model/{name}"], tensor) for name, tensor in saved.items())


def flip_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_damaged_part_is_detected_by_name(folder, tmp_path, caplog):
    shutil.copytree(folder / "two, then one", tmp_path / "run")
    checkpoints = RunFolder(tmp_path / "run").checkpoints
    newest = max(checkpoints.iterdir())
    (part, *_) = sorted(newest.glob("shard-*"))
    flip_bit(part)
    with caplog.at_level(logging.WARNING):
        assert load_shards(checkpoints, {}) is None
    assert f"Checkpoint {newest} is damaged ({part.name}: the checksum does not match)" in caplog.text


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed is not supported"),
        ({"ACCELERATE_USE_MEGATRON_LM": "true"}, "Megatron-LM is not supported"),
        ({"ACCELERATE_USE_FSDP": "true"}, "enables FSDP, but training.sharding is none"),
    ],
)
def test_other_engines_are_rejected(variables, problem, folder, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=problem):
        check_launcher(read_config(folder / "LoRA, copied.yaml"))


def test_settings_of_accelerate_that_have_no_effect_are_rejected(folder, monkeypatch):
    config = read_config(folder / "LoRA, sharded.yaml")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "true")
    with pytest.raises(ValueError, match="FSDP_OFFLOAD_PARAMS=true, which is not supported; set fsdp_offload_params"):
        check_launcher(config)
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "false")
    check_launcher(config)
