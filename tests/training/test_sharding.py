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
from ctcdro.training.sharding import check_launcher, keep_lengths_on_host

pytestmark = pytest.mark.usefixtures("one_thread")

# Nothing is random, and there are no group weights, which one process updates more often than two.
SAME_ON_ONE = ("objective={name: erm}", "model.head=linear", "training.sharding=full")
SAME_ON_ONE += ("training.num_batches=12", "training.average_last_fraction=0.5")
# LoRA has both frozen and trained parts.
MODELS = [name if name == "LoRA" else pytest.param(name, marks=pytest.mark.slow) for name in exact_runs.MODELS]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def folder(dataset, tmp_path_factory, one_thread):
    """Runs of the same configuration: of one process, of two, killed and resumed, and with a changing number."""
    folder = tmp_path_factory.mktemp("runs")
    encoder = tiny_encoders.write("wav2vec2", tmp_path_factory.mktemp("encoder"))
    config = exact_runs.make_config(dataset, encoder, None, *SAME_ON_ONE)
    config.write(folder / "config.yaml")
    interrupt(config, folder / "one, then two", 5)  # its last checkpoint is that of step 4
    launch = partial(Launch, folder / "config.yaml", num_processes=2)
    killed = launch(folder / "killed", killed_at=5)
    train(config, folder / "one")
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    shutil.copytree(folder / "killed", folder / "two, then one")
    for name in ("two", "killed", "one, then two"):
        launch(folder / name).finish()
    return folder


def steps(out):
    return [record for record in read_log(RunFolder(out).log) if "loss" in record]


def weights(out):
    return load_tensors(RunFolder(out).model / WEIGHTS)


def assert_same_steps(one, other):
    for here, there in zip(steps(one), steps(other), strict=True):
        for key in ("loss", "gradient_norm"):
            assert there[key] == pytest.approx(here[key], rel=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_parts_of_a_model_take_the_same_steps_as_copies(model, dataset, tmp_path):
    encoder = tiny_encoders.write_with_dropout(tmp_path / "encoder")
    for sharding in ("none", "full"):
        config = tmp_path / f"{sharding}.yaml"
        exact_runs.make_config(dataset, encoder, model, f"training.sharding={sharding}").write(config)
        Launch(config, tmp_path / sharding, num_processes=2).finish()
    assert_same_steps(tmp_path / "none", tmp_path / "full")
    expected = weights(tmp_path / "none")
    for name, tensor in weights(tmp_path / "full").items():
        # Adam takes steps of the learning rate, 1e-3, also where the gradient is nearly zero.
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=2e-4)


def test_two_processes_take_the_same_steps_as_one(folder):
    assert_same_steps(folder / "one", folder / "two")


def test_a_killed_run_resumes_exactly(folder):
    assert outcome(folder / "killed") == outcome(folder / "two")


def test_a_run_of_one_process_continues_on_two_with_the_same_batches(folder):
    assert_same_steps(folder / "one", folder / "one, then two")


def test_a_run_of_two_processes_continues_on_one(folder, tmp_path, caplog):
    shutil.copytree(folder / "two, then one", tmp_path / "run")
    with caplog.at_level(logging.WARNING):
        train(read_config(folder / "config.yaml"), tmp_path / "run")
    assert "number of processes changed (2 → 1). Weights, optimizer and group weights" in caplog.text
    assert all(math.isfinite(step["loss"]) for step in steps(tmp_path / "run"))


def test_parts_in_a_checkpoint_form_the_whole_model(folder):
    parts = load_shards(RunFolder(folder / "two").checkpoints, {}).tensors
    last = [record for record in read_log(RunFolder(folder / "two").log) if "is_best" in record][-1]
    assert last["is_best"]  # so that the selected model is that of the checkpoint, with averaged weights
    assert all(torch.equal(parts[f"weight_average/{name}"], tensor) for name, tensor in weights(folder / "two").items())


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
        loaded = load_shards(checkpoints, {})
    assert loaded.step == int(min(checkpoints.iterdir()).name)  # the previous one
    assert f"Checkpoint {newest} is damaged ({part.name}: the checksum does not match)" in caplog.text


def test_lengths_stay_on_the_host_although_fsdp_moves_all_arguments_to_a_gpu():
    class Model(torch.nn.Module):
        def forward(self, audio, lengths):
            return audio.device.type, lengths.tolist()

    model = Model()
    model.register_forward_pre_hook(  # like that of FSDP
        lambda module, arguments: tuple(one if one is None else one.to("meta") for one in arguments), prepend=True
    )
    keep_lengths_on_host(model)
    for length in (3, 4):
        assert model(torch.zeros(1, 5), torch.tensor([length])) == ("meta", [length])


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
        check_launcher(read_config(folder / "config.yaml", ["training.sharding=none"]))


def test_settings_of_accelerate_that_have_no_effect_are_rejected(folder, monkeypatch):
    config = read_config(folder / "config.yaml")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "true")
    with pytest.raises(ValueError, match="FSDP_OFFLOAD_PARAMS=true, which is not supported; set fsdp_offload_params"):
        check_launcher(config)
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "false")
    check_launcher(config)
