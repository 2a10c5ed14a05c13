"""What every reader promises, on a small corpus in the layout that it reads."""

import json

import pytest
from layouts import LAYOUTS, SPLITS, Spoken

from ctcdro import Manifest
from ctcdro.prepare.prepare import prepare
from ctcdro.speech.audio import read_audio

all_readers = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)

# Combining characters (decomposed, to be composed), right to left with vowel signs, no spaces, vowel signs of Hindi.
TEXTS = {"ces": "Dobry\u0301 den, Řeko!", "ara": "السَّلامُ عليكم", "cmn": "你好，世界。", "hin": "नमस्ते दुनिया"}
CLEAN = {"ces": "dobrý den řeko", "ara": "السَّلامُ عليكم", "cmn": "你好世界", "hin": "नमस्ते दुनिया"}


def corpus_of(texts):
    return [
        Spoken(split, lang, f"{lang}_{split}_{number}", text, seconds=0.5 + 0.25 * number)
        for lang, text in texts.items()
        for split in SPLITS
        for number in range(2)
    ]


def prepared(layout, tmp_path, spoken, out="out", options=None, **how):
    layout.write(tmp_path / "corpus", spoken, **how)
    return prepare(layout.read(tmp_path / "corpus", tmp_path / out), tmp_path / out, {}, **(options or {}))


@all_readers
def test_all_that_is_said_is_found(layout, tmp_path):
    spoken = corpus_of(TEXTS)
    done = prepared(layout, tmp_path, spoken)
    assert done.dropped == []
    for split in SPLITS:
        manifest = Manifest.read(tmp_path / "out" / f"{split}.jsonl")
        found = {
            utterance.id.split("_", 1)[-1] if layout.name == "fleurs" else utterance.id: utterance
            for utterance in manifest
        }
        assert set(found) == {one.id for one in spoken if one.split == split}
        for one in spoken:
            if one.split == split:
                utterance = found[one.id]
                assert (utterance.lang, utterance.text) == (one.lang, CLEAN[one.lang])
                assert utterance.duration == pytest.approx(
                    one.seconds, abs=0.1 if layout.name == "common-voice" else 1e-6
                )
                assert len(read_audio(utterance.audio_filepath)) == pytest.approx(utterance.duration * 16_000, abs=160)


@all_readers
def test_missing_audio_is_left_out_and_named(layout, tmp_path):
    spoken = corpus_of({"ces": "ahoj"})
    spoken[0] = Spoken("train", "ces", spoken[0].id, "ahoj", has_audio=False)
    done = prepared(layout, tmp_path, spoken)
    [dropped] = done.dropped
    assert dropped.reason == "missing audio"
    assert ":" in dropped.where
    assert len(done.manifests["train"]) == 1
    [record] = map(json.loads, (tmp_path / "out" / "dropped.jsonl").read_text().splitlines())
    assert record["where"] == dropped.where


@all_readers
def test_with_strict_missing_audio_stops(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a_ces_1", "ahoj", has_audio=False), *corpus_of({"ces": "ahoj"})]
    with pytest.raises(ValueError, match="missing audio"):
        prepared(layout, tmp_path, spoken, options={"strict": True})
    assert not (tmp_path / "out" / "train.jsonl").exists()


@all_readers
def test_transcripts_without_a_letter_are_left_out(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a_ces_1", "…!"), *corpus_of({"ces": "ahoj"})]
    done = prepared(layout, tmp_path, spoken)
    assert [dropped.reason for dropped in done.dropped] == ["empty transcript"]


@all_readers
def test_empty_transcripts_are_left_out(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a_ces_1", ""), *corpus_of({"ces": "ahoj"})]
    done = prepared(layout, tmp_path, spoken)
    assert [dropped.reason for dropped in done.dropped] == ["empty transcript"]


@pytest.mark.parametrize("layout", LAYOUTS[:-1], ids=lambda layout: layout.name)
@pytest.mark.parametrize("how", [{"newline": "\r\n"}, {"mark": True}], ids=["Windows line ends", "byte order mark"])
def test_files_written_on_windows_read_the_same(layout, how, tmp_path):
    spoken = corpus_of(TEXTS)
    plain = prepared(layout, tmp_path / "plain", spoken)
    other = prepared(layout, tmp_path / "plain", spoken, out="other", **how)
    assert other.dropped == []
    assert {split: list(found) for split, found in other.manifests.items()} == {
        split: list(found) for split, found in plain.manifests.items()
    }


@all_readers
def test_tabs_in_texts_become_spaces_or_the_line_is_named(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a_ces_1", "dobrý\tden"), *corpus_of({"ces": "ahoj"})]
    done = prepared(layout, tmp_path, spoken)
    if layout.tabs_in_text:
        assert any(utterance.text == "dobrý den" for utterance in done.manifests["train"])
    else:
        [dropped] = done.dropped
        assert (dropped.reason, dropped.where.rpartition(":")[2]) == (
            "malformed line",
            "2" if layout.name != "fleurs" else "1",
        )


@pytest.mark.parametrize("layout", [one for one in LAYOUTS if one.spaces_in_ids], ids=lambda layout: layout.name)
def test_ids_with_spaces_are_refused(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a ces", "ahoj"), *corpus_of({"ces": "ahoj"})]
    with pytest.raises(ValueError, match="white space"):
        prepared(layout, tmp_path, spoken)


@all_readers
def test_the_same_corpus_gives_the_same_bytes(layout, tmp_path):
    spoken = corpus_of(TEXTS)
    first = prepared(layout, tmp_path, spoken)
    before = {path.name: path.read_bytes() for path in first.folder.glob("*.json*")}
    again = prepare(layout.read(tmp_path / "corpus", tmp_path / "out"), tmp_path / "out", {})
    assert before == {path.name: path.read_bytes() for path in again.folder.glob("*.json*")}
    assert set(before) == {"dataset.json", "dropped.jsonl", *(f"{split}.jsonl" for split in SPLITS)}


@all_readers
def test_a_dataset_made_otherwise_is_not_overwritten(layout, tmp_path):
    spoken = corpus_of({"ces": "ahoj"})
    prepared(layout, tmp_path, spoken)
    before = (tmp_path / "out" / "train.jsonl").read_bytes()
    listed = layout.read(tmp_path / "corpus", tmp_path / "out")
    with pytest.raises(ValueError, match=r"train\.jsonl is there already"):
        prepare(listed, tmp_path / "out", {"reader": "another"}, profile="paper")
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == before
    prepare(layout.read(tmp_path / "corpus", tmp_path / "out"), tmp_path / "out", {}, profile="paper", overwrite=True)
    assert (tmp_path / "out" / "train.jsonl").read_bytes() != before
