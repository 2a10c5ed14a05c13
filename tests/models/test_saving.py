"""Saved recognizers: what is restored, what is replaced, and what is rejected."""

import json
import os

import pytest
import torch

from ctcdro.models.recognizer import build, load
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "kor"], "abcdefghij ")

pytestmark = pytest.mark.usefixtures("one_thread")


def make():
    return build("mel-small", len(VOCABULARY), seed=0)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("wav2vec2", "transformer"),
        ("wav2vec2, group norm", "linear"),
        ("data2vec-audio", "linear"),
        ("wav2vec2-bert", "transformer"),
        ("whisper", "convolution"),
        ("mel-small", "linear"),
    ],
)
def test_loading_gives_what_was_saved_bit_for_bit(name, head, folders, tmp_path):
    encoder = folders.get(name, name)
    model = build(encoder, len(VOCABULARY), head=head, seed=0).eval()
    model.save(tmp_path / "model", VOCABULARY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json", "model.safetensors", "vocab.json"]
    config = (tmp_path / "model" / "config.json").read_text()
    config = config.replace(json.dumps(encoder), json.dumps("gone")) if encoder != "mel-small" else config
    assert str(tmp_path.parent) not in config
    (tmp_path / "model" / "config.json").write_text(config)  # the checkpoint is not needed any more
    state = torch.get_rng_state()
    loaded, vocabulary = load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)
    assert vocabulary == VOCABULARY
    assert not loaded.training
    audio, num_samples = torch.randn(2, 9_000), torch.tensor([9_000, 4_321])
    with torch.no_grad():
        assert torch.equal(loaded(audio, num_samples).logits, model(audio, num_samples).logits)
    assert {n: p.requires_grad for n, p in loaded.named_parameters()} == {
        n: p.requires_grad for n, p in model.named_parameters()
    }


def test_loading_computes_no_random_weights(folders, tmp_path):
    build(folders["wav2vec2"], len(VOCABULARY), head="transformer", seed=0).save(tmp_path / "model", VOCABULARY)
    with torch.profiler.profile() as profile:
        load(tmp_path / "model")
    called = {event.key for event in profile.key_averages()}
    assert "aten::copy_" in called
    assert called.isdisjoint({"aten::normal_", "aten::uniform_"})


@pytest.fixture
def saved(tmp_path):
    make().save(tmp_path / "model", VOCABULARY)
    return tmp_path / "model"


def test_saving_replaces_an_earlier_recognizer(saved):
    model = build("mel-small", len(VOCABULARY), seed=5)
    model.save(saved, VOCABULARY)
    loaded, _ = load(saved)
    assert torch.equal(loaded.head.output.weight, model.head.output.weight)
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_saving_replaces_nothing_else(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config.json: not the configuration of a recognizer"):
        make().save(tmp_path, VOCABULARY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"other exists and is neither a recognizer nor empty"):
        make().save(tmp_path / "other", VOCABULARY)
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


def test_saving_over_a_recognizer_removes_no_file_of_others(saved):
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"model exists and contains other files: notes\.txt\."):
        make().save(saved, VOCABULARY)
    assert (saved / "notes.txt").read_text() == "mine"


def test_a_failure_leaves_the_earlier_recognizer(saved, monkeypatch):
    before = (saved / "model.safetensors").read_bytes()
    monkeypatch.setattr(Vocabulary, "save", lambda self, path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build("mel-small", len(VOCABULARY), seed=5).save(saved, VOCABULARY)
    assert (saved / "model.safetensors").read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("content", [b"\xff", b"{}", b'{"format": "ctcdro recognizer 1"}'])
def test_what_is_no_configuration_is_refused(saved, content):
    (saved / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json: "):
        load(saved)


def test_what_are_no_weights_is_refused(saved):
    (saved / "model.safetensors").write_bytes(b"\x80\x04pickled")
    with pytest.raises(ValueError, match=r"model\.safetensors: not a safetensors file"):
        load(saved)


def test_other_weights_and_vocabularies_are_refused(saved, tmp_path):
    other = Vocabulary(["ces"], "ab")
    other.save(saved / "vocab.json")
    with pytest.raises(ValueError, match=r"vocab\.json: 6 labels, but .* `vocabulary_size` 15"):
        load(saved)
    build("mel-small", 6).save(tmp_path / "other", other)
    os.replace(tmp_path / "other" / "model.safetensors", saved / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors: not the weights of this recognizer"):
        load(saved)
    with pytest.raises(ValueError, match=r"`vocabulary` has 6 labels, but .* 15"):
        make().save(tmp_path / "third", other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("change", [{"width": 2_000}, {"num_blocks": 10**9}])
def test_a_configuration_of_a_larger_model_than_the_weights_is_rejected(saved, change):
    config = json.loads((saved / "config.json").read_text())
    config["encoder"] |= change
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json: .*the model would be larger than model\.safetensors"):
        load(saved)
