"""Scores of languages and over languages agree with each other and with a textbook edit distance."""

import json
import statistics

import numpy as np
import pytest
from edit_oracle import edit_distance
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.scoring.profiles import PROFILES
from ctcdro.scoring.scores import Scores, count, score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.normalization import clean


def utterance(number, lang="ces", text="ahoj", hyp_text="ahoj", hyp_lang=None):
    return Prediction(f"u{number}", lang, text, hyp_lang, hyp_text)


def test_the_worst_fifteen_are_those_of_the_highest_rates():
    records = [utterance(n, f"l{n:02}", "a" * 20, "a" * (20 - n), None) for n in range(20)]
    scores = score(records, "ml-superb2")
    assert scores.worst_mean() == pytest.approx(statistics.fmean(n / 20 for n in range(5, 20)))
    assert scores.worst_mean(num_languages=2) == pytest.approx(37 / 40)
    assert score(records[:3], "ml-superb2").worst_mean() == pytest.approx(1 / 20)
    assert scores.summary()["worst_15_cer"] == scores.worst_mean()


def test_nothing_but_empty_references_has_no_rates():
    scores = score([utterance(1, "ces", "", "a"), utterance(2, "deu", "", "")], "ml-superb2")
    assert scores.worst() is scores.best() is scores.mean() is scores.spread() is scores.worst_mean() is None
    assert set(scores.summary().values()) == {None}
    assert Scores.from_record(scores.to_record()) == scores
    assert score([utterance(1)]).spread() is None


def test_the_label_of_the_worst_names_up_to_three_languages():
    records = [utterance(n, lang, "ano", "") for n, lang in enumerate(("ces", "slk", "pol", "hrv"))]
    assert score(records[:2]).worst_label() == "ces, slk"
    assert score(records).worst_label() == "4 languages tied"


texts = st.text(alphabet="ab c\u0301дש你", max_size=12).map(lambda text: " ".join(text.split()))


records = st.lists(
    st.tuples(st.sampled_from(["ces", "cmn", "tha"]), texts, texts, st.sampled_from([None, "ces", "cmn"])), min_size=1
).map(lambda rows: [utterance(n, lang, text, hyp, named) for n, (lang, text, hyp, named) in enumerate(rows)])


@given(records, st.sampled_from(sorted(PROFILES)))
def test_figures_hold_together(records, profile):
    counts = count(records, profile)
    scores = counts.scores()
    rates = scores.rates("cer")
    if rates:
        assert scores.best()[1] <= scores.mean() + 1e-12
        assert scores.mean() <= scores.worst_mean(num_languages=2) + 1e-12
        assert scores.worst_mean(num_languages=1) == scores.worst()[1]
        assert scores.worst()[1] == max(rates.values())
    assert sum(figures.num_utterances for figures in scores.languages.values()) == len(records)
    assert sum(sum(row.values()) for row in scores.confusion.values()) == len(records)
    assert sum(figures.characters.total for figures in scores.languages.values()) == scores.together.characters.total
    assert Scores.from_record(json.loads(json.dumps(scores.to_record(), allow_nan=False))) == scores


@pytest.mark.parametrize("profile", ["plain", "ml-superb2"])
def test_spaces_count_between_words_but_not_at_either_end(profile):
    edits = count([utterance(1, "ces", " ab c ", "abc"), utterance(2, "ces", "", " ")], profile).characters
    assert (edits.deletions.tolist(), edits.total.tolist(), edits.reference.tolist()) == ([1, 0], [1, 0], [4, 0])


@given(records)
def test_plain_counts_as_the_textbook_on_clean_text(records):
    counts = count(records)
    expected = [edit_distance(clean(record.text), clean(record.hyp_text)) for record in records]
    assert np.array_equal(counts.characters.total, expected)


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_utterances_does_not_matter(records, generator):
    shuffled = generator.sample(records, len(records))
    ours, theirs = score(records).summary(), score(shuffled).summary()
    assert ours == pytest.approx(theirs)


def test_unknown_profiles_and_repeated_ids_are_rejected():
    with pytest.raises(ValueError, match="`profile` must be one of plain, ml-superb2, paper"):
        count([utterance(1)], "strict")
    with pytest.raises(ValueError, match="at least one utterance"):
        count([])
    with pytest.raises(ValueError, match="'u1' occurs 2 times"):
        count([utterance(1), utterance(1)])


@pytest.mark.parametrize("record", [None, {}, {"profile": "plain", "languages": {"ces": {}}}])
def test_other_records_are_rejected(record):
    with pytest.raises(ValueError, match="not scores written by ctcdro"):
        Scores.from_record(record)


def test_scores_say_what_they_are_in_their_record():
    record = score([utterance(1), utterance(2, "deu", "hallo", "halo", "deu")]).to_record()
    assert record["profile"] == "plain"
    assert (record["worst_language"], record["best_language"]) == ("deu", "ces")
    assert record["summary"]["worst_cer"] == 0.2
    assert record["languages"]["deu"]["characters"] == {
        "substitutions": 0,
        "deletions": 1,
        "insertions": 0,
        "reference": 5,
    }
