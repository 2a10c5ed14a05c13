"""Averaged weights: their mean, what is validated and kept, and exact restarts."""

import pytest
import torch
from exact_runs import Launch, interrupt, make_config, outcome
from tones import write_dataset

from ctcdro.models.recognizer import load
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import read_log
from ctcdro.training.checkpoint_files import load_checkpoint
from ctcdro.training.loop import train, train_step
from ctcdro.training.setup import set_up_run
from ctcdro.training.weight_average import WeightAverage

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


def averaging(dataset, *overrides):
    """Nine steps, of which the last five are averaged; validations after steps 3, 6 and 9."""
    return make_config(dataset, "mel-small", None, "training.average_last_fraction=0.55", *overrides)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_average_is_the_mean_of_the_last_steps():
    model = torch.nn.BatchNorm1d(2)
    model.bias.requires_grad_(False)
    average = WeightAverage(model, num_steps=10, last_fraction=0.3)
    values = torch.rand(10, 2)
    for step, value in enumerate(values, start=1):
        for tensor in (model.weight.data, model.bias.data, model.running_mean):
            tensor.copy_(value)
        model.num_batches_tracked.fill_(step)
        average.update(step)
    before = weights(model)
    with average.applied():
        for tensor in (model.weight, model.running_mean):
            torch.testing.assert_close(tensor.detach(), values[-3:].mean(0))
        assert torch.equal(model.bias, values[-1])
        assert model.num_batches_tracked == 10
    assert average.num_steps == 3
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_before_averaging_the_model_keeps_its_weights_and_nothing_is_stored():
    model = torch.nn.Linear(2, 2)
    for fraction in (None, 0.1):
        average = WeightAverage(model, num_steps=10, last_fraction=fraction)
        average.update(9)
        before = weights(model)
        with average.applied():
            assert torch.equal(model.weight, before["weight"])
        assert average.state_dict() == {}


def test_the_last_model_is_the_mean_of_the_trained_weights(dataset, tmp_path):
    """Scored by validation and kept, while training continues from the weights of the last step."""
    config = averaging(dataset, "training.validate_every_batches=18")
    plain = set_up_run(make_config(dataset, "mel-small", None), RunFolder(tmp_path / "plain"))
    steps = []
    for _ in range(9):
        train_step(plain)
        steps.append(weights(plain.recognizer))
    run = train(config, tmp_path / "run")
    model, _ = load(run.model)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([step[name] for step in steps[-5:]]).mean(0), msg=name)
    checkpoint = load_checkpoint(run.checkpoints)
    for name, tensor in steps[-1].items():
        assert torch.equal(checkpoint.tensors[f"model/{name}"], tensor), name


def test_the_log_has_the_number_of_averaged_steps(dataset, tmp_path):
    run = train(averaging(dataset), tmp_path / "run")
    validations = [record for record in read_log(run.log) if "validation" in record]
    assert [record.get("averaged_steps") for record in validations] == [None, 2, 5]


def test_a_run_resumes_exactly_before_and_while_it_averages(dataset, tmp_path):
    config = averaging(dataset)
    whole = outcome(train(config, tmp_path / "whole").path)
    interrupt(config, tmp_path / "run", 3, after="validation")
    interrupt(config, tmp_path / "run", 5)  # from here on, every restart finds averaged weights
    interrupt(config, tmp_path / "run", 6, after="validation")
    interrupt(config, tmp_path / "run", 8)
    assert outcome(train(config, tmp_path / "run").path) == whole


def test_two_processes_resume_exactly(dataset, tmp_path):
    averaging(dataset).write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "whole", num_processes=2).finish()
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2, killed_at=7).wait()
    assert not (tmp_path / "run" / "model").exists()
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2).finish()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
