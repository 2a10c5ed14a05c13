"""Properties of all readers, on a small corpus in the layout of each."""

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
def test_all_utterances_are_read(layout, tmp_path):
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
def test_missing_audio_is_dropped_and_named(layout, tmp_path):
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
def test_transcripts_without_a_letter_are_dropped(layout, tmp_path):
    spoken = [Spoken("train", "ces", "a_ces_1", "…!"), Spoken("train", "ces", "a_ces_2", "")]
    done = prepared(layout, tmp_path, [*spoken, *corpus_of({"ces": "ahoj"})])
    assert [dropped.reason for dropped in done.dropped] == ["empty transcript"] * 2


@pytest.mark.parametrize("layout", LAYOUTS[:-1], ids=lambda layout: layout.name)
def test_files_written_on_windows_read_the_same(layout, tmp_path):
    spoken = corpus_of(TEXTS)
    plain = prepared(layout, tmp_path / "plain", spoken)
    other = prepared(layout, tmp_path / "plain", spoken, out="other", newline="\r\n", mark=True)
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


def test_ids_with_spaces_are_dropped(tmp_path):
    layout = next(layout for layout in LAYOUTS if layout.spaces_in_ids)
    spoken = [Spoken("train", "ces", "a ces", "ahoj"), *corpus_of({"ces": "ahoj"})]
    dropped = prepared(layout, tmp_path, spoken).dropped
    assert [(one.reason, one.id) for one in dropped] == [("unusable id", "a ces")]
    assert dropped[0].detail == "ids must not contain whitespace; got 'a ces'"


@all_readers
def test_the_same_corpus_gives_the_same_bytes(layout, tmp_path):
    spoken = corpus_of(TEXTS)
    first = prepared(layout, tmp_path, spoken)
    before = {path.name: path.read_bytes() for path in first.folder.glob("*.json*")}
    again = prepare(layout.read(tmp_path / "corpus", tmp_path / "out"), tmp_path / "out", {})
    assert before == {path.name: path.read_bytes() for path in again.folder.glob("*.json*")}
    assert set(before) == {"dataset.json", "dropped.jsonl", *(f"{split}.jsonl" for split in SPLITS)}
