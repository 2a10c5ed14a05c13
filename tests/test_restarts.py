"""Exact restarts of what the paper trains: a pretrained encoder with dropout, and a head with SpecAugment."""

import pytest
import torch

import tiny_encoders
from ctcdro.config import parse_config
from ctcdro.data.loading import SpeechDataset, load_batches
from ctcdro.model import build
from ctcdro.runfolder import RunFolder, read_lines
from ctcdro.training import train
from ctcdro.utterance import Manifest
from tones import write_dataset

pytestmark = pytest.mark.usefixtures("one_thread")

MODELS = {
    "fine-tuning": {},
    "LoRA": {"lora": {"rank": 2, "dropout": 0.1}},
    "frozen": {"freeze_encoder": True},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoders.write_with_dropout(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def make_config(dataset, encoder):
    """Nine steps in three epochs; a checkpoint after steps 2, 3, 4, 6, 8 and 9."""

    def make(model, *overrides):
        values = {
            "dataset": str(dataset),
            "model": {"encoder": encoder, "head": "transformer", **MODELS[model]},
            "objective": {"step_size": 1e-2, "smoothing": 0.5},
            "batches": {"batch_duration": 2.0, "num_workers": 0},
            "optimiser": {"learning_rate": 1e-3, "accumulate": 2},
            "training": {"epochs": 3, "batches_per_epoch": 6, "checkpoint_every": 2, "trackers": []},
        }
        return parse_config(values, overrides)

    return make


def outcome(path):
    """What a run leaves behind, without the times."""
    folder = RunFolder(path)
    files = sorted(path for path in folder.model.rglob("*") if path.is_file())
    logs = [[{**record, "seconds": None} for record in read_lines(log)] for log in (folder.log, folder.group_weights)]
    return {path.name: path.read_bytes() for path in files}, logs


class InterruptedRunError(Exception):
    pass


def interrupt(config, out, step):
    """Starts or resumes a run that breaks off after a step."""

    def fail(record):
        if record["step"] == step and "epoch" not in record:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(config, out, watch=fail)


@pytest.fixture(scope="module")
def uninterrupted(make_config, one_thread, tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    return {model: outcome(train(make_config(model), out / model).path) for model in MODELS}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("model", MODELS)
def test_a_run_resumes_exactly_in_every_epoch(make_config, uninterrupted, tmp_path, model, num_workers):
    config = make_config(model, f"batches.num_workers={num_workers}")
    for step in (1, 3, 4, 5, 8):  # before the first checkpoint, at the end of an epoch, after it, in later epochs
        interrupt(config, tmp_path / "run", step)
    assert outcome(train(config, tmp_path / "run").path) == uninterrupted[model]


def test_every_step_has_its_own_dropout_and_masks(make_config, tmp_path):
    """Where nothing is learned, the loss of the only utterance still changes from step to step."""
    alone = write_dataset(tmp_path / "dataset", languages=["aaa"], num_train=1, num_dev=1)
    config = make_config("fine-tuning", f"dataset={alone}", "optimiser.learning_rate=1e-12", "training.epochs=1")
    losses = [record["losses"]["aaa"] for record in read_lines(train(config, tmp_path / "run").group_weights)]
    assert len(set(losses)) == 3


@pytest.mark.parametrize("name", tiny_encoders.MODELS)
@pytest.mark.parametrize("model", MODELS)
def test_dropout_is_on_from_the_first_step_unless_the_encoder_is_frozen(folders, name, model):
    recogniser = build(folders[name], 7, seed=0, **MODELS[model])
    assert recogniser.head.training
    assert {module.training for module in recogniser.encoder.modules()} == {model != "frozen"}


def test_a_frozen_encoder_gives_the_same_features_in_training(encoder):
    recogniser = build(encoder, 7, freeze_encoder=True, seed=0)
    audio, num_samples = torch.randn(2, 8_000), torch.tensor([8_000, 6_000])
    features = [recogniser.encode(audio, num_samples)[0] for _ in range(2)]
    assert torch.equal(*features)
    assert torch.equal(features[0], recogniser.eval().encode(audio, num_samples)[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loading_leaves_the_global_generator_unchanged(dataset, num_workers):
    before = torch.get_rng_state()
    manifest = Manifest.read(dataset / "train.jsonl")
    assert len(list(load_batches(SpeechDataset(manifest), [[0, 1], [2]], num_workers))) == 2
    assert torch.equal(torch.get_rng_state(), before)
