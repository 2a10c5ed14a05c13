"""Errors of utterances in several languages: by script, in proportion to shares, and added up to the whole."""

import pytest

from ctcdro.scoring.comparisons import compare
from ctcdro.scoring.intervals import confidence_intervals
from ctcdro.scoring.profiles import PROFILES
from ctcdro.scoring.scores import count, score
from ctcdro.scoring.transcripts import Prediction, read_predictions, write_predictions

HALF = {"cmn": 0.5, "eng": 0.5}
PLAIN = [Prediction("p1", "cmn", "我想去", "cmn", "我想去"), Prediction("p2", "eng", "go up", "eng", "go us")]


def test_each_language_has_the_errors_in_its_own_characters():
    mixed = Prediction("m1", "cmn", "我想ok", "cmn", "我们omx", lang_shares=HALF)
    scores = score([*PLAIN, mixed])
    # Chinese: 1 substitution in 3 + 2 characters. English: 1 in 5 + 2, and 1 insertion.
    assert scores.rates("cer") == pytest.approx({"cmn": 1 / 5, "eng": 3 / 7})
    assert scores.together.cer == pytest.approx(4 / 12)
    assert [scores.languages[name].num_utterances for name in ("cmn", "eng")] == [2, 2]
    assert scores.together.num_utterances == 3


def test_languages_of_one_script_share_errors_in_proportion():
    mixed = Prediction("m1", "ces", "ahojhey ok", "ces", "ahojhey", lang_shares={"ces": 0.75, "eng": 0.25})
    scores = score([mixed])
    assert scores.rates("cer") == pytest.approx({"ces": 0.3, "eng": 0.3})
    assert scores.languages["ces"].characters.reference == 8  # 7.5, as a whole number


@pytest.mark.parametrize("profile", PROFILES)
def test_parts_add_up_to_the_whole(profile):
    records = [
        *PLAIN,
        Prediction("m1", "cmn", "我 想ok", "eng", "我们 omx", lang_shares=HALF),
        Prediction("m2", "eng", "stop", "cmn", "sto", lang_shares={"eng": 0.9, "ces": 0.1}),
        Prediction("m3", "eng", "去 now", None, "", lang_shares={"eng": 0.6, "cmn": 0.4}),
    ]
    counts = count(records, profile)
    for name, terms in counts.terms().items():
        by_part = counts.terms_by_part()[name]
        assert by_part.numerator.sum() == pytest.approx(terms.numerator.sum()), name
        assert by_part.denominator.sum() == pytest.approx(terms.denominator.sum()), name
    intervals = confidence_intervals(counts)
    for language, rate in counts.scores().rates("cer").items():
        found = intervals.languages[language]["cer"]
        assert found.value == pytest.approx(rate)
        assert found.low <= rate <= found.high
    assert compare(counts, counts).summary["worst_cer"].value == 0


def test_either_language_is_the_correct_one():
    mixed = [Prediction(name, "cmn", "我ok", name, "我ok", lang_shares=HALF) for name in ("cmn", "eng", "fra")]
    assert score(mixed).together.lid == pytest.approx(2 / 3)


def test_predictions_keep_their_shares(tmp_path):
    records = [PLAIN[0], Prediction("m1", "cmn", "我ok", None, "", lang_shares={"eng": 0.4, "cmn": 0.6})]
    write_predictions(tmp_path / "test.jsonl", records)
    assert read_predictions(tmp_path / "test.jsonl") == records
