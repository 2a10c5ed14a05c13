"""References and hypotheses in all forms, matched by id; what is wrong is named by file and line."""

import gzip
import json
import re

import pytest
from cases import case
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.scoring.transcripts import (
    Prediction,
    Transcript,
    match,
    read_hypotheses,
    read_predictions,
    read_references,
    split_language,
    write_predictions,
)

SAID = [("a1", "ces", "dobrý den"), ("a2", "ces", ""), ("b1", "cmn", "你好")]


def json_lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


FORMS = {
    "said.jsonl": json_lines(*({"id": one, "lang": lang, "text": text} for one, lang, text in SAID)),
    "said.json": json_lines(*({"id": one, "text": f"[{lang}] {text}"} for one, lang, text in SAID)),
    "unnamed": json_lines(*({"id": one, "lang": lang, "text": text} for one, lang, text in SAID)),
    "text": "".join(f"{one} [{lang}] {text}\n" for one, lang, text in SAID),
    "said.txt": "".join(f"{one}\t[{lang}]{text}\r\n" for one, lang, text in SAID),
    "said.trn": "".join(f"[{lang}] {text}\t({one})\n" for one, lang, text in SAID),
    "said": "".join(f"[{lang}] {text} ({one})\n" for one, lang, text in SAID),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_formats_are_read_alike(name, tmp_path):
    path = tmp_path / name
    path.write_text(FORMS[name], encoding="utf-8")
    for read in (read_references, read_hypotheses):
        assert [(one.id, one.lang, one.text) for one in read(path)] == SAID
        assert [one.where for one in read(path)] == [f"{path}:{line}" for line in (1, 2, 3)]


def test_packed_files_are_read(tmp_path):
    (tmp_path / "said.trn.gz").write_bytes(gzip.compress(FORMS["said.trn"].encode()))
    assert [one.id for one in read_references(tmp_path / "said.trn.gz")] == ["a1", "a2", "b1"]


def test_a_file_named_text_is_kaldi_even_with_parentheses(tmp_path):
    (tmp_path / "text").write_text("a1 [ces] ahoj (smích)\n", encoding="utf-8")
    assert read_references(tmp_path / "text")[0].text == "ahoj (smích)"


def test_hypotheses_of_predictions_and_of_nemo_are_distinguished_from_references(tmp_path):
    path = tmp_path / "hyp.jsonl"
    path.write_text(
        json_lines(
            {"id": "1", "lang": "ces", "text": "ahoj", "hyp_lang": "slk", "hyp_text": "ahoi"},
            {"id": "2", "lang": "ces", "text": "ahoj", "hyp_lang": None, "hyp_text": "[pol] ahoi"},
            {"id": "3", "lang": "ces", "text": "ahoj", "pred_text": "ahoi"},
        )
    )
    assert [(one.lang, one.text) for one in read_hypotheses(path)] == [("slk", "ahoi"), ("pol", "ahoi"), (None, "ahoi")]
    assert {(one.lang, one.text) for one in read_references(path)} == {("ces", "ahoj")}


def test_references_without_a_language_may_get_one_for_all(tmp_path):
    (tmp_path / "text").write_text("a1 ahoj\na2 [deu] hallo\n")
    assert [one.lang for one in read_references(tmp_path / "text", lang="ces")] == ["ces", "deu"]
    with pytest.raises(ValueError, match=r"text:1: the reference has no language"):
        read_references(tmp_path / "text")


def test_what_is_wrong_is_named_by_file_and_line(tmp_path):
    for name, content, message in (
        ("a.jsonl", '{"id": "1", "text": "a"}\n\n{"id": "2"', r"a\.jsonl:3: not a JSON object on one line"),
        ("a.jsonl", '{"text": "a"}\n', r"a\.jsonl:1: `id` is missing \(found: text\)"),
        ("a.jsonl", '{"id": "1"}\n', r"a\.jsonl:1: `text` is missing"),
        ("a.jsonl", '{"id": 1, "text": "a"}\n', r"a\.jsonl:1: `id` must be non-empty text, got 1"),
        ("a.jsonl", '{"id": "1", "text": null}\n', r"a\.jsonl:1: `text` must be text, got None"),
        ("a.jsonl", '{"id": "1", "text": "a", "lang": ""}\n', r"a\.jsonl:1: `lang` must be non-empty text"),
        ("a.trn", "ahoj (1)\nahoj\n", r"a\.trn:2: expected a text and its id in parentheses"),
        ("text", "1 ahoj\n2 ahoj\n1 ahoj\n", r"text:3: duplicate id '1', first used at .*text:1"),
        ("text", "\n", r"text: no transcripts in this file"),
    ):
        with case(content):
            (tmp_path / name).write_text(content)
            with pytest.raises(ValueError, match=message):
                read_hypotheses(tmp_path / name)


def said(*ids):
    return [Transcript(one, "ahoj", "ces", f"ref:{number}") for number, one in enumerate(ids, start=1)]


def recognized(*ids):
    return [Transcript(one, "ahoi", None, f"hyp:{number}") for number, one in enumerate(ids, start=1)]


def test_ids_are_matched_in_the_order_of_references():
    assert [one.id for one in match(said("a", "b", "c"), recognized("c", "a", "b"))] == ["a", "b", "c"]


def test_missing_and_superfluous_ids_are_named():
    with pytest.raises(ValueError, match=re.escape("ref:2: id 'b' (and 1 more) has no hypothesis")):
        match(said("a", "b", "c"), recognized("a"))
    with pytest.raises(ValueError, match=re.escape("hyp:2: id 'x' is not in the reference file")):
        match(said("a"), recognized("a", "x"), missing_as_empty=True)


def test_missing_hypotheses_can_be_empty():
    found = match(said("a", "b"), recognized("b"), missing_as_empty=True)
    assert [(one.hyp_text, one.hyp_lang) for one in found] == [("", None), ("ahoi", None)]


some_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
predictions = st.builds(
    Prediction,
    id=some_text.filter(bool),
    lang=some_text.filter(bool),
    text=some_text,
    hyp_lang=st.none() | some_text.filter(bool),
    hyp_text=some_text,
)


@given(st.lists(predictions))
def test_predictions_come_back_as_they_were(tmp_path_factory, predictions):
    path = tmp_path_factory.mktemp("predictions") / "test.jsonl"
    write_predictions(path, predictions)
    assert read_predictions(path) == predictions


def test_predictions_that_are_none_are_named(tmp_path):
    for record, message in (
        ({"id": "1"}, r"test\.jsonl:1: `lang` is missing"),
        ({"id": "1", "lang": "ces", "text": "", "hyp_text": ""}, r":1: `hyp_lang` is missing"),
        (
            {"id": "1", "lang": "ces", "text": "", "hyp_text": 7, "hyp_lang": None},
            "`hyp_text` must be text, got 7",
        ),
        (
            {"id": "1", "lang": "ces", "text": "", "hyp_text": "", "hyp_lang": ""},
            r":1: `hyp_lang` must be non-empty text",
        ),
    ):
        with case(record):
            (tmp_path / "test.jsonl").write_text(json.dumps(record))
            with pytest.raises(ValueError, match=message):
                read_predictions(tmp_path / "test.jsonl")


def test_language_tokens_are_split_from_text():
    assert split_language("[ces] ahoj") == ("ces", "ahoj")
    assert split_language("  [ces]ahoj ") == ("ces", "ahoj")
    assert split_language("[ces]") == ("ces", "")
    for text in ("ahoj [ces] ahoj", "[two words] ahoj", ""):
        assert split_language(text) == (None, text)
