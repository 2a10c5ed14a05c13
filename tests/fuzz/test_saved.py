"""Damaged and forged files of runs: checkpoints with valid digests, tensors, vocabularies, model folders."""

import json
import os
import shutil
import warnings
from uuid import uuid4

import pytest
import torch
from cases import case
from fairseq2_models import random_weights, write_tokenizer
from hostile import FUZZ, altered, as_json, damaged, is_reported
from hypothesis import given, settings
from hypothesis import strategies as st

from ctcdro.models.fairseq2 import convert_fairseq2
from ctcdro.models.recognizer import build, load
from ctcdro.speech.sentencepiece import read_pieces
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.storage.tensors import load_tensors, load_torch_file
from ctcdro.training.checkpoint_files import (
    DIGESTS,
    TENSORS,
    VALUES,
    Checkpoint,
    _digests,
    load_checkpoint,
    save_checkpoint,
)

pytestmark = pytest.mark.usefixtures("one_thread")

VOCABULARY = Vocabulary(["ces", "cmn"], "ahoj ")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "mel"
    build("mel-small", len(VOCABULARY), seed=0).save(folder, VOCABULARY)
    return folder


@pytest.fixture(scope="module")
def wav2vec2(tmp_path_factory, folders):
    folder = tmp_path_factory.mktemp("model") / "wav2vec2"
    build(folders["wav2vec2"], len(VOCABULARY), seed=0).save(folder, VOCABULARY)
    return folder


@pytest.fixture
def checkpoints(tmp_path):
    for step in (5, 10):
        save_checkpoint(tmp_path, Checkpoint(step, {"a": torch.ones(3)}, {"epoch": step, "state": {"tensor": "a"}}))
    return tmp_path


TENSORS_FILE = (
    b"\x50\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'.ljust(0x50) + b"\0\0\x80?" * 3
)


@given(st.one_of(damaged(TENSORS_FILE), st.binary(max_size=100)))
@FUZZ
def test_files_of_tensors(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    tensors = is_reported(lambda: load_tensors(path), path)
    assert tensors is None or all(tensor.numel() < 100 for tensor in tensors.values())


@given(st.data())
@FUZZ
def test_files_of_torch(tmp_path, data):
    path = tmp_path / "a.pt"
    torch.save({"model": {"a": torch.ones(3)}}, path)
    path.write_bytes(data.draw(st.one_of(damaged(path.read_bytes()), st.binary(max_size=100))))
    is_reported(lambda: load_torch_file(path), path)


@given(st.data())
@FUZZ
def test_sentencepiece_models(tmp_path, data):
    path = write_tokenizer(tmp_path / "a.model")
    path.write_bytes(data.draw(st.one_of(damaged(path.read_bytes()), st.binary(max_size=100))))
    is_reported(lambda: read_pieces(path), path)


@given(st.data())
@FUZZ
def test_checkpoints_of_fairseq2(tmp_path, data):
    """Tensors of the right names with any shape."""
    weights = random_weights()
    for name in data.draw(st.lists(st.sampled_from(sorted(weights)), max_size=3)):
        weights[name] = torch.zeros(data.draw(st.lists(st.integers(0, 5), max_size=4)))
    path = tmp_path / "a.pt"
    torch.save(weights, path)
    is_reported(lambda: convert_fairseq2(path, tmp_path / uuid4().hex, num_heads=4), path)


@pytest.mark.parametrize("name", [TENSORS, VALUES, DIGESTS])
@given(st.data())
@FUZZ
def test_damaged_checkpoints_are_skipped(checkpoints, name, data):
    path = checkpoints / "000000010" / name
    sound = path.read_bytes()
    content = data.draw(damaged(sound))
    path.write_bytes(content)
    loaded = load_checkpoint(checkpoints)
    assert loaded.step == (10 if content == sound else 5)
    path.write_bytes(sound)


@given(altered({"step": 10, "values": {"epoch": 10}}).map(as_json))
@FUZZ
def test_checkpoints_made_up_with_right_digests_are_read_or_skipped(checkpoints, content):
    folder = checkpoints / "000000010"
    (folder / VALUES).write_bytes(content)
    (folder / DIGESTS).write_text(_digests(folder))
    loaded = load_checkpoint(checkpoints)
    assert loaded.step in (5, 10)


def test_folders_next_to_checkpoints_are_ignored(checkpoints):
    for name in ("²", "1" * 200, "-1", "000000010.new"):
        os.mkdir(checkpoints / name)
    assert load_checkpoint(checkpoints).step == 10
    save_checkpoint(checkpoints, Checkpoint(11, {"a": torch.ones(3)}, {}))
    assert load_checkpoint(checkpoints).step == 11


VOCAB = {"<pad>": 0, "<unk>": 1, "|": 2, "[ces]": 3, "a": 4, "ř": 5}


@given(st.one_of(damaged(as_json(VOCAB)), altered(VOCAB).map(as_json)))
@FUZZ
def test_vocabularies(tmp_path, content):
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    vocabulary = is_reported(lambda: Vocabulary.load(path), path)
    if vocabulary is not None:
        vocabulary.save(tmp_path / "copy.json")
        assert Vocabulary.load(tmp_path / "copy.json") == vocabulary


@pytest.mark.parametrize("kind", ["model", "wav2vec2"])
@given(st.data())
@FUZZ
def test_configurations_of_models(request, kind, data):
    folder = request.getfixturevalue(kind)
    path = folder / "config.json"
    sound = path.read_bytes()
    record = json.loads(sound)
    path.write_bytes(data.draw(st.one_of(damaged(sound), altered(record).map(as_json))))
    try:
        is_reported(lambda: load(folder), folder)
    finally:
        path.write_bytes(sound)


SIZES = {
    "model": {"width": 10**9, "num_blocks": 10**30, "kernel": 10**12, "num_bins": 10**6, "stacked": -1, "expansion": 0},
    "wav2vec2": {
        **{"hidden_size": 10**6, "num_hidden_layers": 10**9, "intermediate_size": 10**12, "conv_dim": 10**6},
        **{"num_conv_pos_embeddings": 10**9, "num_attention_heads": 0, "conv_kernel": 1.5, "vocabulary_size": 10**12},
    },
}


@pytest.mark.parametrize("kind", SIZES)
def test_impossible_sizes_of_models_take_neither_memory_nor_time(request, kind):
    folder = request.getfixturevalue(kind)
    path = folder / "config.json"
    sound = path.read_bytes()
    for key, size in SIZES[kind].items():
        record = json.loads(sound)
        section = record["settings"] if key == "vocabulary_size" else record["encoder"].get("config", record["encoder"])
        assert key in section
        section[key] = [size] * len(section[key]) if isinstance(section[key], list) else size
        path.write_bytes(as_json(record))
        try:
            with case(key):
                is_reported(lambda: load(folder), folder)
        finally:
            path.write_bytes(sound)


def test_a_model_without_one_of_its_files_is_named(model):
    for name in ("vocab.json", "model.safetensors", "config.json"):
        os.rename(model / name, model / "away")
        try:
            with case(name), pytest.raises((ValueError, OSError), match=name.replace(".", r"\.")):
                load(model)
        finally:
            os.rename(model / "away", model / name)


@given(st.data())
@settings(FUZZ, max_examples=FUZZ.max_examples // 4)
def test_configurations_of_pretrained_encoders(tmp_path_factory, folders, data):
    folder = tmp_path_factory.mktemp("encoder") / "pretrained"
    shutil.copytree(folders["wav2vec2"], folder)
    sound = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(data.draw(st.one_of(damaged(sound), altered(json.loads(sound)).map(as_json))))
    with warnings.catch_warnings(action="ignore"):  # transformers warns about unknown settings
        is_reported(lambda: build(str(folder), 8, seed=0), folder)
    shutil.rmtree(folder)


def test_an_encoder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Cannot load encoder .*nowhere.*: transformers found it neither as a folder"):
        build(str(tmp_path / "nowhere"), 8)
