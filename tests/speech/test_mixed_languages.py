"""Utterances in several languages: shares, manifests, groups, labels and batches."""

import json
import math

import numpy as np
import pytest
import torch
from cases import case

import ctcdro
from ctcdro.speech.batch import collate
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.language_shares import languages_of_characters, shares_from_segments, shares_from_text
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.utterance import Utterance
from ctcdro.speech.vocabulary import Vocabulary

MIXED = {"audio_filepath": "a.wav", "duration": 2.0, "text": "我想 go", "lang": {"eng": 0.4, "cmn": 0.6}}
PLAIN = {"audio_filepath": "b.wav", "duration": 1.0, "text": "go", "lang": "eng"}


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in (MIXED, PLAIN, MIXED | {"lang": {"cmn": 1}})))
    return Manifest.read(path)


def test_a_mapping_is_read_and_written_unchanged(manifest, tmp_path):
    assert [utterance.lang for utterance in manifest] == ["cmn", "eng", "cmn"]
    assert list(manifest[0].languages) == ["eng", "cmn"]  # in order of appearance
    assert manifest[1].lang_shares is manifest[2].lang_shares is None
    manifest.write(tmp_path / "copy.jsonl")
    assert list(Manifest.read(tmp_path / "copy.jsonl")) == list(manifest)
    assert json.loads((tmp_path / "copy.jsonl").read_text().splitlines()[0])["lang"] == MIXED["lang"]


def test_shares_that_make_no_sense_are_rejected():
    for lang, message in (
        ({"cmn": 0.6, "eng": 0.6}, "`lang` must have shares that sum to 1, got {'cmn': 0.6"),
        ({"cmn": 1.5, "eng": -0.5}, "`lang` must have positive shares, .*got -0.5"),
        ({"cmn": "all"}, "`lang` must have positive shares, .*got 'all'"),
        ({"cmn": math.nan, "eng": 0.5}, "`lang` must have positive shares, .*got nan"),
        ({}, "`lang` must have shares that sum to 1, got {}"),
        ({"": 1.0}, "`lang` must be non-empty text"),
    ):
        with case(lang), pytest.raises(ValueError, match=message):
            Utterance.from_record(MIXED | {"lang": lang})
    with pytest.raises(ValueError, match="`lang_shares` must have several languages, the largest of which is `lang`"):
        Utterance("a.wav", 1.0, "go", "eng", lang_shares={"eng": 0.2, "cmn": 0.8})


def test_groups_have_rows_on_the_simplex_and_the_number_of_the_largest_share(manifest):
    groups = manifest.groups()
    assert groups.names == ["cmn", "eng"]
    assert groups.numbers.tolist() == [0, 1, 0]
    np.testing.assert_allclose(groups.membership, [[0.6, 0.4], [0, 1], [1, 0]], rtol=1e-6)
    assert Manifest([manifest[1]]).groups().rows is None


def test_any_field_may_have_shares_and_fields_multiply(manifest):
    utterance = Utterance.from_record(MIXED | {"group": {"a": 0.5, "b": 0.5}})
    groups = Manifest([utterance]).groups("lang,group")
    assert groups.names == ["cmn/a", "cmn/b", "eng/a", "eng/b"]
    np.testing.assert_allclose(groups.membership, [[0.3, 0.3, 0.2, 0.2]], rtol=1e-6)
    with pytest.raises(ValueError, match="`group` must have shares that sum to 1"):
        Manifest([Utterance.from_record(PLAIN | {"group": {"a": 0.5}})]).groups("group")


def test_labels_begin_with_the_languages_in_order_of_appearance(manifest):
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.languages for one in manifest))
    assert vocabulary.languages == ["cmn", "eng"]
    labels = vocabulary.encode(MIXED["text"], MIXED["lang"])
    assert [vocabulary.tokens[label] for label in labels] == ["[eng]", "[cmn]", "我", "想", "|", "g", "o"]
    assert vocabulary.decode(labels) == ("eng", "我想 go")
    with pytest.raises(ValueError, match="`language` must be one of cmn, eng; got 'fra'"):
        vocabulary.encode("go", ["eng", "fra"])


def test_batches_have_rows_of_shares_that_objectives_take(manifest):
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.languages for one in manifest))
    dataset = SpeechDataset(manifest, vocabulary, reader=lambda index: np.ones(10 + index, np.float32))
    batch = collate([dataset[index] for index in range(3)])
    torch.testing.assert_close(batch.groups, torch.tensor([[0.6, 0.4], [0.0, 1.0], [1.0, 0.0]]))
    assert batch.num_labels.tolist() == [7, 3, 6]
    assert batch.num_characters.tolist() == [5, 2, 5]
    objective = ctcdro.ctc_dro(2, step_size=1e-3, smoothing=0.1, signal="loss_per_character")
    assert objective(torch.ones(3), batch.groups, batch.num_characters).isfinite()
    sampler = ctcdro.LengthMatchedBatchSampler(manifest.durations, manifest.groups().membership, batch_duration=2.0)
    assert {frozenset(map(int, manifest.groups().numbers[batch])) for batch in sampler} == {
        frozenset({0}),
        frozenset({1}),
    }


def test_shares_come_from_segments_or_from_the_scripts_of_a_text():
    assert shares_from_segments([("eng", 1.0), ("cmn", 2.0), ("eng", 1.0)]) == {"eng": 0.5, "cmn": 0.5}
    assert shares_from_text("привет, ok 12", ["rus", "eng"]) == {"rus": 0.75, "eng": 0.25}
    assert list(shares_from_text("ok 나는", ["kor", "eng"])) == ["eng", "kor"]
    with pytest.raises(ValueError, match="those of ces, eng do not"):
        shares_from_text("ahoj", ["ces", "eng"])
    with pytest.raises(ValueError, match="`text` must have at least one part with a language"):
        shares_from_text("123", ["rus", "eng"])
    assert languages_of_characters("ок é", ["rus", "eng"]) == ["rus", "rus", "rus", "eng"]
    assert languages_of_characters("a", ["rus", "not a code"]) is None
