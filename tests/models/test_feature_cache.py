"""Cached features of frozen encoders: their use in runs, and changes of encoder and audio."""

import os
import shutil

import numpy as np
import pytest
import soundfile
import torch
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.decoding.evaluate import evaluate
from ctcdro.models.feature_cache import FeatureCache, FeatureReader, FeatureRecognizer
from ctcdro.models.recognizer import build
from ctcdro.runs.config import parse_config
from ctcdro.speech.audio import AudioError
from ctcdro.speech.batch import collate
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.storage.json_files import read_log
from ctcdro.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=8, num_dev=3)


@pytest.fixture
def encoder(folders):
    return folders["whisper, encoder alone"]


def filled(dataset, encoder, folder, **options):
    manifest = Manifest.read(dataset / "dev.jsonl")
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.lang for one in manifest))
    model = build(encoder, len(vocabulary), freeze_encoder=True, seed=0, **options).eval()
    cache = FeatureCache(folder, model)
    cache.fill(manifest)
    return manifest, vocabulary, model, cache


def config(dataset, encoder, *overrides):
    values = {
        "dataset": str(dataset),
        "model": {"encoder": encoder, "head": "convolution", "freeze_encoder": True, "spec_augment": False},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 4.0},
        "optimizer": {"learning_rate": 2e-3, "batches_per_step": 2},
        "training": {"num_batches": 16, "validate_every_batches": 8, "checkpoint_every_steps": 3, "trackers": []},
    }
    return parse_config(values, overrides)


@pytest.mark.parametrize(
    ("name", "head"),
    [*(("whisper, encoder alone", head) for head in ("transformer", "convolution", "linear")), ("parakeet", "linear")],
)
def test_a_batch_of_features_gives_what_the_audio_gives(dataset, folders, tmp_path, name, head):
    manifest, vocabulary, model, cache = filled(dataset, folders[name], tmp_path, head=head)
    kept = SpeechDataset(manifest, vocabulary, reader=FeatureReader(cache, manifest))
    batch = collate([kept[index] for index in range(4)])
    with torch.no_grad():
        together = FeatureRecognizer(model)(batch.inputs, batch.lengths)
        for index in range(4):
            audio = torch.from_numpy(soundfile.read(manifest[index].audio_filepath, dtype="float32")[0])
            alone = model(audio[None], torch.tensor([len(audio)]))
            num_frames = int(alone.num_frames)
            assert int(together.num_frames[index]) == num_frames
            torch.testing.assert_close(together.logits[index, :num_frames], alone.logits[0], rtol=1e-4, atol=1e-4)


def test_ranks_fill_everything_whenever_each_of_them_starts(dataset, encoder, tmp_path):
    manifest, _, _, cache = filled(dataset, encoder, tmp_path / "one")
    other = FeatureCache(tmp_path / "ranks", cache._recognizer)
    for rank in range(3):  # each finds the files of the previous ones
        other.fill(manifest, rank=rank, num_ranks=3)
    assert all(other.path(utterance).exists() for utterance in manifest)


def test_a_run_with_kept_features_is_the_run_without(dataset, encoder, tmp_path):
    plain = train(config(dataset, encoder), tmp_path / "plain")
    kept = train(config(dataset, encoder, f"model.feature_cache_dir={tmp_path / 'cache'}"), tmp_path / "kept")
    for one, other in zip(read_log(plain.group_weights), read_log(kept.group_weights), strict=True):
        assert one["losses"] == pytest.approx(other["losses"], rel=1e-3)
        assert one["weights"] == pytest.approx(other["weights"], rel=1e-3)
    seconds = [[one["audio_seconds"] for one in read_log(run.log) if "audio_seconds" in one] for run in (plain, kept)]
    assert seconds[0] == pytest.approx(seconds[1])
    scores = [evaluate(run.path, "test").scores.rates("cer") for run in (plain, kept)]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


def test_a_stopped_run_resumes_to_the_same_bytes_and_its_checkpoints_are_small(dataset, encoder, tmp_path):
    cached = config(dataset, encoder, f"model.feature_cache_dir={tmp_path / 'cache'}")
    whole = train(cached, tmp_path / "whole")

    def fail(record):
        if record["step"] == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(cached, tmp_path / "stopped", callback=fail)
    shutil.rmtree(tmp_path / "cache")  # features are computed again, with the same bits
    stopped = train(cached, tmp_path / "stopped")
    assert stopped.group_weights.read_bytes() == whole.group_weights.read_bytes()
    weights = [(run.model / "model.safetensors").read_bytes() for run in (whole, stopped)]
    assert weights[0] == weights[1]
    [checkpoint, *_] = whole.checkpoints.iterdir()
    names = _tensor_names(checkpoint / "tensors.safetensors")
    assert any(name.startswith("model/head.") for name in names)
    assert not any(name.startswith("model/encoder.network.layers") for name in names)


def _tensor_names(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return list(file.keys())


def test_another_encoder_cannot_resume_a_run(dataset, encoder, tmp_path):
    copy = shutil.copytree(encoder, tmp_path / "encoder")
    cached = config(dataset, str(copy), f"model.feature_cache_dir={tmp_path / 'cache'}")

    def fail(record):
        if record["step"] == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(cached, tmp_path / "run", callback=fail)
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"Cannot resume .*: the pretrained weights of .* changed since"):
        train(cached, tmp_path / "run")


def test_features_are_computed_once_and_again_if_audio_changes(dataset, encoder, tmp_path):
    copy = shutil.copytree(dataset, tmp_path / "dataset")
    relative = [line.replace(str(dataset), str(copy)) for line in (dataset / "dev.jsonl").read_text().splitlines()]
    (copy / "dev.jsonl").write_text("\n".join(relative))
    manifest, _, _, cache = filled(copy, encoder, tmp_path / "cache")
    files = {path: path.stat().st_mtime_ns for path in cache.folder.rglob("*.npy")}
    assert len(files) == len(manifest)
    cache.fill(manifest)
    assert {path: path.stat().st_mtime_ns for path in cache.folder.rglob("*.npy")} == files

    changed = manifest[0].audio_filepath
    samples, rate = soundfile.read(changed)
    soundfile.write(changed, samples / 2, rate)
    os.utime(changed, ns=(1, 1))
    cache.fill(manifest)
    assert len(list(cache.folder.rglob("*.npy"))) == len(manifest) + 1


def test_features_that_a_power_cut_shortened_are_computed_again(dataset, encoder, tmp_path):
    """Feature files are not flushed to disk; after a power failure one may be empty or truncated."""
    manifest, _, _, cache = filled(dataset, encoder, tmp_path)
    path = cache.path(manifest[0])
    whole = path.read_bytes()
    for size in range(0, len(whole), 4096):
        path.write_bytes(whole[:size])
        cache.fill(manifest)
        assert path.read_bytes() == whole


def test_another_encoder_or_head_has_other_files(dataset, folders, tmp_path):
    names = ["whisper, encoder alone", "wav2vec2"]
    found = {filled(dataset, folders[name], tmp_path)[3].folder for name in names}
    found.add(filled(dataset, folders["wav2vec2"], tmp_path, head="linear")[3].folder)
    assert len(found) == 3


def test_a_file_that_cannot_be_read_is_named(dataset, encoder, tmp_path):
    copy = shutil.copytree(dataset, tmp_path / "dataset")
    lines = [line.replace(str(dataset), str(copy)) for line in (dataset / "train.jsonl").read_text().splitlines()]
    (copy / "train.jsonl").write_text("\n".join(lines))
    (copy / "aaa-train-3.wav").write_bytes(b"RIFF")
    cached = config(copy, encoder, f"model.feature_cache_dir={tmp_path / 'cache'}")
    with pytest.raises(AudioError, match=r"train.jsonl:4: .*aaa-train-3.wav"):
        train(cached, tmp_path / "run")
    skipping = config(copy, encoder, f"model.feature_cache_dir={tmp_path / 'cache'}", "data.on_bad_audio=skip")
    folder = train(skipping, tmp_path / "skipping")
    assert folder.is_finished


def test_a_damaged_file_of_features_is_named(dataset, encoder, tmp_path):
    manifest, _, _, cache = filled(dataset, encoder, tmp_path)
    read = FeatureReader(cache, manifest)
    path = cache.path(manifest[1])
    for content in (b"", b"\x93NUMPY", path.read_bytes()[:-8]):
        path.write_bytes(content)
        with pytest.raises(AudioError, match=r"not the features of an utterance .* Remove the file"):
            read(1)
    path.unlink()
    with pytest.raises(AudioError, match=r"(bbb|aaa)-dev.*: no cached features in"):
        read(1)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(AudioError, match="not the features of an utterance"):
        read(1)


def test_a_trained_encoder_is_refused(encoder, tmp_path):
    with pytest.raises(ValueError, match="`freeze_encoder=True`"):
        FeatureCache(tmp_path, build(encoder, 5, seed=0))
    with pytest.raises(ValueError, match=r"model\.feature_cache_dir: features change .* add `freeze_encoder: true`"):
        parse_config({"dataset": "d", "model": {"feature_cache_dir": "f"}})
    with pytest.raises(ValueError, match=r"model\.gradient_checkpointing: .*; remove `gradient_checkpointing`"):
        parse_config({"dataset": "d", "model": {"encoder": "mel-small", "gradient_checkpointing": True}})
