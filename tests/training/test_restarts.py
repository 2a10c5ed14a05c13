"""Exact restarts of what the paper trains: a pretrained encoder with dropout, and a head with SpecAugment."""

import itertools
import re
import shutil
import signal
from functools import partial
from pathlib import Path

import exact_runs
import numpy as np
import pytest
import tiny_encoders
import torch
from exact_runs import MODELS, SKIPPING, Launch, interrupt, outcome, write_junk
from tones import write_dataset

from ctcdro import LengthMatchedBatchSampler
from ctcdro.models.recognizer import build
from ctcdro.runs.folder import RunFolder
from ctcdro.speech.audio import read_audio
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.loader import load_batches
from ctcdro.speech.manifest import Manifest
from ctcdro.storage.json_files import read_log
from ctcdro.training.loop import train
from ctcdro.training.setup import set_up_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoders.write_with_dropout(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def make_config(dataset, encoder):
    return partial(exact_runs.make_config, dataset, encoder)


@pytest.fixture(scope="module")
def uninterrupted(make_config, one_thread, tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    return {model: outcome(train(make_config(model), out / model).path) for model in MODELS}


def test_a_run_resumes_exactly_in_every_epoch(make_config, uninterrupted, tmp_path):
    config = make_config("fine-tuning", "data.num_workers=2")
    interrupt(config, tmp_path / "run", 1)  # before the first checkpoint
    interrupt(config, tmp_path / "run", 3)
    interrupt(config, tmp_path / "run", 3, after="validation")
    interrupt(config, tmp_path / "run", 4)  # resumed from the first validation
    interrupt(config, tmp_path / "run", 6, after="validation")
    interrupt(config, tmp_path / "run", 8)
    assert outcome(train(config, tmp_path / "run").path) == uninterrupted["fine-tuning"]


@pytest.mark.parametrize("model", ["LoRA", "frozen", "linear head"])
def test_every_kind_of_model_resumes_exactly(make_config, uninterrupted, tmp_path, model):
    interrupt(make_config(model), tmp_path / "run", 3, after="validation")
    interrupt(make_config(model), tmp_path / "run", 8)
    assert outcome(train(make_config(model), tmp_path / "run").path) == uninterrupted[model]


def test_parakeet_resumes_exactly_with_dropout_and_masks(dataset, tmp_path):
    encoder = tiny_encoders.write_with_dropout(tmp_path / "encoder", "parakeet, encoder alone")
    config = exact_runs.make_config(dataset, encoder, "linear head")
    expected = outcome(train(config, tmp_path / "whole").path)
    interrupt(config, tmp_path / "run", 3, after="validation")
    interrupt(config, tmp_path / "run", 8)
    assert outcome(train(config, tmp_path / "run").path) == expected


@pytest.mark.parametrize(("signal", "num_workers"), [("loss_per_character", 2), ("error_rate", 0)])
def test_error_weighted_training_resumes_exactly_although_batches_depend_on_weights(
    make_config, tmp_path, signal, num_workers
):
    config = make_config(
        "fine-tuning",
        "objective.name=error-weighted",
        f"objective.signal={signal}",
        "objective.power=4",
        "training.num_batches=24",
        f"data.num_workers={num_workers}",
    )
    folder = train(config, tmp_path / "whole")
    weights = [record["weights"] for record in read_log(folder.group_weights)]
    assert weights[-1] != weights[0]
    interrupt(config, tmp_path / "run", 1)
    interrupt(config, tmp_path / "run", 5)
    interrupt(config, tmp_path / "run", 6, after="validation")
    interrupt(config, tmp_path / "run", 11)
    assert outcome(train(config, tmp_path / "run").path) == outcome(folder.path)


AUGMENTED = ("model.spec_augment=true", "data.speed_perturbation=[0.9, 1.0, 1.1]", "data.noise_snr_db=[5, 30]")
AUGMENTED += ("training.average_last_fraction=0.5", "optimizer.encoder_learning_rate=1e-4")


def test_an_augmented_run_resumes_exactly_with_workers_and_without(dataset, tmp_path):
    def augmented(num_workers):
        return exact_runs.make_config(dataset, "mel-small", None, *AUGMENTED, f"data.num_workers={num_workers}")

    whole = outcome(train(augmented(0), tmp_path / "whole").path)
    for num_workers in (0, 2):
        for step in (3, 8):  # before the average of the weights begins, and during it
            interrupt(augmented(num_workers), tmp_path / f"{num_workers}", step)
        assert outcome(train(augmented(num_workers), tmp_path / f"{num_workers}").path) == whole


def test_only_training_data_are_augmented(dataset, tmp_path):
    run = set_up_run(exact_runs.make_config(dataset, "mel-small", None, *AUGMENTED), RunFolder(tmp_path / "run"))
    for index, utterance in enumerate(run.dev):
        assert np.array_equal(run.dev_dataset[index].inputs, read_audio(utterance.audio_filepath))
    originals = {
        index: read_audio(one.audio_filepath) for index, one in enumerate(Manifest.read(dataset / "train.jsonl"))
    }
    batch = next(run.stream)
    for index, inputs, length in zip(batch.indices.tolist(), batch.inputs, batch.lengths, strict=True):
        assert 0.9 < length / len(originals[index]) < 1.12
        assert not np.array_equal(inputs[:length], originals[index])


def test_it_does_not_matter_how_much_of_the_feature_cache_is_filled(make_config, tmp_path):
    empty, part = (make_config("frozen", f"model.feature_cache_dir={tmp_path / name}") for name in ("empty", "part"))
    expected = outcome(train(empty, tmp_path / "run").path)
    for path in sorted((tmp_path / "empty").rglob("*.npy"))[:10]:
        copy = tmp_path / "part" / path.relative_to(tmp_path / "empty")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    interrupt(part, tmp_path / "other run", 5)
    assert outcome(train(part, tmp_path / "other run").path) == expected
    assert len(list((tmp_path / "part").rglob("*.npy"))) == 24
    assert outcome(train(part, tmp_path / "last run").path) == expected  # nothing is missing


def test_every_step_has_its_own_dropout_and_masks(make_config, tmp_path):
    """Where nothing is learned, the loss of the only utterance still changes from step to step."""
    alone = write_dataset(tmp_path / "dataset", languages=["aaa"], num_train=1, num_dev=1)
    config = make_config("fine-tuning", f"dataset={alone}", "optimizer.learning_rate=1e-12", "training.num_batches=6")
    losses = [record["losses"]["aaa"] for record in read_log(train(config, tmp_path / "run").group_weights)]
    assert len(set(losses)) == 3


@pytest.mark.parametrize("model", MODELS)
def test_dropout_is_on_from_the_first_step_unless_the_encoder_is_frozen(folders, model):
    for name in ("wav2vec2", "wav2vec2-bert", "whisper", "parakeet"):  # one for each front end
        recognizer = build(folders[name], 7, seed=0, **MODELS[model])
        assert recognizer.head.training, name
        modules = [one for one in recognizer.encoder.modules() if not isinstance(one, torch.nn.BatchNorm1d)]
        assert {module.training for module in modules} == {model != "frozen"}, name


def test_a_frozen_encoder_gives_the_same_features_in_training(encoder):
    recognizer = build(encoder, 7, freeze_encoder=True, seed=0)
    audio, num_samples = torch.randn(2, 8_000), torch.tensor([8_000, 6_000])
    features = [recognizer.encode(audio, num_samples)[0] for _ in range(2)]
    assert torch.equal(*features)
    assert torch.equal(features[0], recognizer.eval().encode(audio, num_samples)[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loading_leaves_the_global_generator_unchanged(dataset, num_workers):
    before = torch.get_rng_state()
    manifest = Manifest.read(dataset / "train.jsonl")
    assert len(list(load_batches(SpeechDataset(manifest), [[0, 1], [2]], num_workers))) == 2
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture(scope="module")
def of_two_processes(make_config, tmp_path_factory):
    """The configuration of a run of two processes that skips audio, and its folder."""
    folder = tmp_path_factory.mktemp("two")
    config = make_config("fine-tuning", f"dataset={write_junk(folder / 'junk')}", *SKIPPING)
    config.write(folder / "config.yaml")
    Launch(folder / "config.yaml", folder / "run", num_processes=2).finish()
    return config, folder


def test_files_that_any_process_skips_are_in_the_log(of_two_processes):
    config, folder = of_two_processes
    manifest = Manifest.read(config.dataset / "train.jsonl")
    unreadable = {index for index, one in enumerate(manifest) if Path(one.audio_filepath).read_bytes() == b"RIFF"}
    numbers = manifest.groups().numbers
    sampler = LengthMatchedBatchSampler(manifest.durations, numbers, config.sampling.batch_duration, seed=config.seed)
    ranks = [endless(sampler, rank) for rank in range(2)]
    num_differing = 0
    for record in (record for record in read_log(RunFolder(folder / "run").log) if "loss" in record):
        skipped = []
        for rank in ranks:
            for _ in range(2):  # batches of a step
                while (batch := set(next(rank))) <= unreadable:
                    skipped += [batch]
                skipped += [batch & unreadable]
        expected = sorted(manifest[index].audio_filepath for index in itertools.chain(*skipped))
        assert sorted(re.search(r"\S+\.wav", line)[0] for line in record.get("skipped", [])) == expected
        num_differing += len(expected) > 0
    assert num_differing > 2


def endless(sampler, rank):
    """The batches of one of two processes, which begins an epoch again where its last turn is not full."""
    for epoch in itertools.count():
        plan = sampler.plan(epoch)
        yield from (plan[number % len(plan)] for number in range(rank, len(plan) + len(plan) % 2, 2))


def test_two_processes_that_skip_different_numbers_of_batches_resume_exactly(of_two_processes, tmp_path):
    _, folder = of_two_processes
    killed = Launch(folder / "config.yaml", tmp_path / "run", num_processes=2, killed_at=5)
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    Launch(folder / "config.yaml", tmp_path / "run", num_processes=2).finish()
    assert outcome(tmp_path / "run") == outcome(folder / "run")


def test_three_processes_resume_exactly(make_config, tmp_path):
    """Three gradients have different sums in different orders; two do not."""
    config = make_config("fine-tuning", "optimizer.batches_per_step=3", "training.num_batches=12")
    config.write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "whole", num_processes=3).finish()
    killed = Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=3, killed_at=3)
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=3).finish()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_another_number_of_processes_is_refused(make_config, of_two_processes, tmp_path):
    config, folder = of_two_processes
    shutil.copytree(folder / "run", tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    with pytest.raises(ValueError, match=r"number of processes changed \(2 → 1\)\. Use the same number"):
        train(config, tmp_path / "run")
