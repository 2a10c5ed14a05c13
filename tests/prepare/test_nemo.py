"""NeMo manifests: segments, languages, and invalid lines."""

import json

import pytest
from layouts import write_audio, write_lines

from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.nemo import read_nemo


def prepared(tmp_path, *records, **options):
    write_audio(tmp_path / "a.wav", 3.0)
    write_lines(
        tmp_path / "train.json", [record if isinstance(record, str) else json.dumps(record) for record in records]
    )
    return prepare(read_nemo({"train": [tmp_path / "train.json"]}, **options), tmp_path / "out", {})


def test_duration_and_offset_are_a_stretch_of_the_file(tmp_path):
    records = [{"audio_filepath": "a.wav", "text": "a", "lang": "ces", "offset": 0.5, "duration": 1.0}]
    records += [{"audio_filepath": "a.wav", "text": "b", "lang": "ces"}]
    records += [{"audio_filepath": "a.wav", "text": "c", "lang": "ces", "duration": 3.02}]
    done = prepared(tmp_path, *records)
    assert [(one.offset, one.duration) for one in done.manifests["train"]] == [(0.5, 1.0), (0.0, 3.0), (0.0, 3.0)]


def test_the_language_may_be_another_field_or_one_for_all(tmp_path):
    records = [{"audio_filepath": "a.wav", "pred": "a", "target_lang": "de"}, {"audio_filepath": "a.wav", "pred": "b"}]
    done = prepared(tmp_path, *records, lang="ces", lang_field="target_lang", text_field="pred")
    assert [(one.lang, one.text) for one in done.manifests["train"]] == [("de", "a"), ("ces", "b")]


def test_an_utterance_may_be_in_several_languages(tmp_path):
    record = {"audio_filepath": "a.wav", "text": "我想 go", "lang": {"cmn": 0.4, "eng": 0.6}}
    invalid = [record | {"lang": shares} for shares in ({"cmn": 0.5}, {}, {"c n": 0.5, "eng": 0.5})]
    done = prepared(tmp_path, record, *invalid)
    [utterance] = done.manifests["train"]
    assert (utterance.lang, dict(utterance.languages)) == ("eng", record["lang"])
    problems = [(one.reason, one.detail) for one in done.dropped]
    assert [reason for reason, _ in problems] == ["malformed line", "malformed line", "unusable language"]
    assert "`lang` must have shares that sum to 1, got {'cmn': 0.5}" in problems[0][1]


def test_malformed_lines_are_dropped_and_named(tmp_path):
    good = {"audio_filepath": "a.wav", "text": "a", "lang": "ces"}
    malformed = {
        "not a JSON object": "not json",
        "`audio_filepath` is missing": {"text": "a", "lang": "ces"},
        "`lang` is missing": {"audio_filepath": "a.wav", "text": "a"},
        "`text` must be non-empty text, got 7": {**good, "text": 7},
        "`duration` must be a non-negative number": {**good, "duration": "1"},
        "`offset` must be a non-negative number": {**good, "offset": -1},
    }
    done = prepared(tmp_path, good, *malformed.values())
    assert [one.where for one in done.dropped] == [f"{tmp_path / 'train.json'}:{line}" for line in range(2, 8)]
    assert all(expected in one.detail for expected, one in zip(malformed, done.dropped, strict=True))


def test_manifests_of_archives_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"train\.json:1: the audio is in tar archives"):
        prepared(tmp_path, {"audio_filepath": "a.wav", "text": "a", "lang": "ces", "shard_id": 0})
