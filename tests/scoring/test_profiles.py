"""Profiles give values worked out by hand, and those of NIST's sclite."""

import random
import statistics
import unicodedata
from pathlib import Path
from typing import get_args

import pytest
from edit_oracle import SCLITE, corrupt, run_sclite

from ctcdro.scoring.edits import count_as_sclite
from ctcdro.scoring.profiles import PROFILES
from ctcdro.scoring.scores import score
from ctcdro.scoring.transcripts import Prediction


def utterance(number, lang="ces", text="ahoj", hyp_text="ahoj", hyp_lang=None):
    return Prediction(f"u{number}", lang, text, hyp_lang, hyp_text)


@pytest.mark.skipif(SCLITE is None, reason="sclite is not installed")
def test_the_paper_profile_agrees_with_what_sclite_prints(tmp_path):
    generator = random.Random(3)
    alphabet = [*"ABCDEFGHČŘŽ "]
    records = []
    for number in range(300):
        text = " ".join("".join(generator.choice(alphabet) for _ in range(generator.randint(1, 40))).split()) or "A"
        hypothesis = "".join(corrupt(generator, text, alphabet, generator.random() * 0.6))
        records.append(utterance(number, "ces", text, " ".join(hypothesis.split()), "ces"))

    def symbols(text):
        return ["<space>" if character == " " else character for character in (f" {text}" if text else "")]

    references = [symbols(record.text) for record in records]
    _, percents = run_sclite(tmp_path, references, [symbols(record.hyp_text) for record in records])
    lengths = [len(reference) for reference in references]
    expected = sum(percents[number] * length for number, length in enumerate(lengths)) / sum(lengths) / 100
    assert score(records, "paper").languages["ces"].cer == pytest.approx(expected, abs=2e-4)


@pytest.mark.skipif(SCLITE is None, reason="sclite is not installed")
def test_rates_are_rounded_as_sclite_does(tmp_path):
    pairs = [
        (["A"] * length, ["A"] * (length - wrong) + ["B"] * wrong) for length in (3, 8, 16, 40) for wrong in (1, 3)
    ]
    references, hypotheses = zip(*pairs, strict=True)
    _, percents = run_sclite(tmp_path, references, hypotheses)
    for number, (reference, hypothesis) in enumerate(pairs):
        edits = count_as_sclite([reference], [hypothesis])
        terms = PROFILES["paper"].terms(edits)
        assert terms.numerator.sum() / terms.denominator.sum() == pytest.approx(percents[number] / 100)


def test_plain_is_all_edits_over_all_characters_of_clean_text():
    scores = score(
        [
            utterance(1, "ces", "Dobrý den!", "dobry den", "ces"),  # 1 of 9
            utterance(2, "ces", "Ano.", "ano", "slk"),  # 0 of 3
            utterance(3, "cmn", "你好", "", None),  # 2 of 2
        ]
    )
    assert scores.languages["ces"].cer == pytest.approx(1 / 12)
    assert scores.languages["ces"].wer == pytest.approx(1 / 3)
    assert scores.languages["ces"].lid == 0.5
    assert scores.languages["cmn"].cer == scores.languages["cmn"].wer == 1.0
    assert scores.together.cer == pytest.approx(3 / 14)
    assert scores.together.lid == pytest.approx(1 / 3)
    assert scores.worst() == ("cmn", 1.0)
    assert scores.best() == ("ces", pytest.approx(1 / 12))
    assert scores.worst("lid") == ("cmn", 0.0)
    assert scores.best("lid") == ("ces", 0.5)
    assert scores.mean() == pytest.approx(13 / 24)
    assert scores.mean("lid") == 0.25
    assert scores.spread() == pytest.approx(statistics.stdev([1 / 12, 1.0]))
    assert scores.confusion == {"ces": {"ces": 1, "slk": 1}, "cmn": {"none": 1}}


def test_ml_superb2_averages_utterances_without_punctuation_and_some_without_spaces():
    scores = score(
        [
            utterance(1, "eng", "I'll go - now.", "ill go now", "eng"),  # ILL GO␣␣NOW, ILL GO NOW: 1 of 11
            utterance(2, "eng", "Yes", "no", "eng"),  # YES, NO: 3 of 3
            utterance(3, "eng", "...", "what", "deu"),  # skipped
            utterance(4, "cmn", "我 想去，餐厅", "我想 去 餐", "cmn"),  # 1 of 5
        ],
        "ml-superb2",
    )
    assert scores.languages["eng"].cer == pytest.approx((1 / 11 + 1) / 2)
    assert scores.languages["eng"].lid == 1.0
    assert scores.languages["cmn"].cer == pytest.approx(1 / 5)
    assert scores.mean() == pytest.approx(((1 / 11 + 1) / 2 + 1 / 5) / 2)
    assert scores.languages["eng"].num_utterances == 3


def test_paper_counts_the_space_behind_the_language_token_and_rounds():
    scores = score(
        [
            utterance(1, "ces", "ab c", "ab d", "ces"),  # ␣AB␣C: 1 of 5, 20.0%
            utterance(2, "ces", "ab", "b", "ces"),  # ␣AB, ␣B: 1 of 3, 33.3%
            utterance(3, "ces", "ab", "ab", None),  # ␣AB, AB: 1 of 3, 33.3%
            utterance(4, "ces", "abcdefg", "abcdefg [deu]", None),  # names a language: 0 of 8
        ],
        "paper",
    )
    assert scores.languages["ces"].cer == pytest.approx((5 * 0.2 + 3 * 0.333 + 3 * 0.333) / 19)
    assert scores.languages["ces"].lid == 0.5
    assert scores.confusion == {"ces": {"ces": 2, "deu": 1, "none": 1}}


def test_paper_rounds_halves_upwards():
    # ␣ and 15 characters: 5 of 16 are 31.25%.
    assert score([utterance(1, "ces", "a" * 15, "a" * 10, "ces")], "paper").together.cer == pytest.approx(0.313)


@pytest.mark.parametrize("profile", PROFILES)
def test_all_profiles_take_empty_texts_marks_and_any_direction(profile):
    records = [
        utterance(1, "ces", "", "", None),
        utterance(2, "ces", "ahoj", "", "ces"),
        utterance(3, "heb", "שָׁלוֹם", "שלום", "heb"),
        utterance(4, "arb", "السلام عليكم", "السلام", "arb"),
        utterance(5, "fra", "e\u0301te\u0301", "été", "fra"),
        utterance(6, "tha", "", "ก็ได้", "tha"),
    ]
    scores = score(records, profile)
    assert scores.languages["tha"].cer is None
    assert scores.languages["tha"].wer is None
    assert 0 < scores.languages["heb"].cer < 1
    assert scores.languages["ces"].cer == 1.0
    assert scores.mean() == pytest.approx(statistics.fmean(scores.rates("cer").values()))
    assert len(scores.rates("cer")) == 4


def test_composed_and_decomposed_characters_are_the_same_in_plain():
    text = "příliš žluťoučký kůň"
    assert score([utterance(1, "ces", text, unicodedata.normalize("NFD", text))]).together.cer == 0


def test_the_profiles_of_the_command_line_are_all_there_are():
    from ctcdro.cli.options import ScoringOption

    choices, _ = get_args(ScoringOption)
    assert get_args(choices) == tuple(PROFILES)
    page = Path(__file__).parents[2] / "docs" / "explanation" / "scoring-and-statistics.md"
    assert all(f"`{name}`" in page.read_text(encoding="utf-8") for name in PROFILES)
