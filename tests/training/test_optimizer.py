"""Learning rates of encoder and head, and an encoder that is frozen at the start of training."""

import signal

import pytest
import tiny_encoders
import torch
from exact_runs import MODELS, Launch, interrupt, make_config, outcome
from tones import write_dataset

from ctcdro.models.recognizer import build
from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import read_log
from ctcdro.training.checkpoint_files import load_checkpoint
from ctcdro.training.loop import train, train_step
from ctcdro.training.optimizer import build_optimizer
from ctcdro.training.setup import set_up_run

pytestmark = pytest.mark.usefixtures("one_thread")

# Three of nine steps. Weight decay would move weights that have no gradient.
FROZEN_START = ("optimizer.freeze_encoder_batches=5", "optimizer.name=adamw", "optimizer.weight_decay=0.1")
FROZEN_START += ("optimizer.encoder_learning_rate=1e-4",)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoders.write_with_dropout(tmp_path_factory.mktemp("encoder"))


def encoder_weights(run):
    return {name: tensor.clone() for name, tensor in run.recognizer.encoder.state_dict().items()}


def are_equal(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("model", MODELS)
def test_every_trained_parameter_has_the_learning_rate_of_its_part(encoder, model):
    recognizer = build(encoder, 7, seed=0, **MODELS[model])
    config = parse_config(
        {"dataset": "-", "optimizer": {"learning_rate": 1e-3, "encoder_learning_rate": 1e-5}, "model": MODELS["LoRA"]}
    )
    rates = {
        parameter: group["lr"]
        for group in build_optimizer(config, recognizer).param_groups
        for parameter in group["params"]
    }
    expected = {
        parameter: 1e-5 if name.startswith("encoder.") else 1e-3
        for name, parameter in recognizer.named_parameters()
        if parameter.requires_grad
    }
    assert rates == expected
    assert set(rates.values()) == ({1e-3} if model == "frozen" else {1e-3, 1e-5})


@pytest.mark.parametrize("model", ["fine-tuning", "LoRA"])
def test_a_frozen_start_trains_only_the_head(dataset, encoder, tmp_path, model):
    run = set_up_run(make_config(dataset, encoder, model, *FROZEN_START), RunFolder(tmp_path / "run"))
    before, head = encoder_weights(run), run.recognizer.head.output.weight.clone()
    records = [train_step(run) for _ in range(3)]
    assert are_equal(encoder_weights(run), before)
    assert not torch.equal(run.recognizer.head.output.weight, head)
    encoder_group, _ = run.optimizer.param_groups
    assert not any(parameter in run.optimizer.state for parameter in encoder_group["params"])
    records.append(train_step(run))
    assert not are_equal(encoder_weights(run), before)
    assert all(run.optimizer.state[parameter]["step"] == 1 for parameter in encoder_group["params"])
    assert [record["learning_rate"] for record in records] == pytest.approx([1e-3] * 4)
    assert [record["encoder_learning_rate"] for record in records] == pytest.approx([0.0, 0.0, 0.0, 1e-4])


@pytest.mark.slow
def test_a_frozen_start_resumes_exactly(dataset, encoder, tmp_path):
    config = make_config(dataset, encoder, "LoRA", *FROZEN_START)
    whole = outcome(train(config, tmp_path / "whole").path)
    for step in (2, 3, 5):
        interrupt(config, tmp_path / "run", step)
    assert outcome(train(config, tmp_path / "run").path) == whole


def test_a_frozen_start_of_two_processes_trains_only_the_head_and_resumes_exactly(dataset, encoder, tmp_path):
    config = make_config(dataset, encoder, "fine-tuning", *FROZEN_START, "optimizer.batches_per_step=2")
    config.write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "whole", num_processes=2).finish()
    killed = Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2, killed_at=3)
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoints")
    pretrained = build(encoder, 11, seed=0).encoder.state_dict()
    assert checkpoint.step == 2
    assert are_equal(pretrained, {name.removeprefix("model/encoder."): one for name, one in checkpoint.tensors.items()})
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2).finish()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    losses = [record["loss"] for record in read_log(RunFolder(tmp_path / "run").log) if "loss" in record]
    assert losses[-1] < losses[0]
