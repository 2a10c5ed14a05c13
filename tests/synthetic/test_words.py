"""Words of each language, and sentences of them."""

import re
import unicodedata

import numpy as np
import pytest
import wordfreq
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.speech.normalization import clean
from ctcdro.synthetic.voices import LANGUAGES, UNSUPPORTED, check_languages, likely_code
from ctcdro.synthetic.words import compose, frequent_words, is_read_well, is_word, join


@pytest.mark.parametrize("script", sorted({language.script for language in LANGUAGES.values()}))
def test_languages_have_clean_words_of_their_script(script):
    for code, language in LANGUAGES.items():
        if language.script == script:
            check_words(code, language)


def check_words(code, language):
    words = frequent_words(code)
    assert len(words) >= 300
    assert len(set(words)) == len(words)
    for word in words:
        assert clean(word) == word
        assert is_word(word, language)
        assert not re.search(r"[\W\d_]", "".join(c for c in word if not unicodedata.category(c).startswith("M")))
    if language.script != "Latin":
        assert not re.search("[a-z]", "".join(words))
    sentence = join(words[:300], language)
    assert clean(sentence) == sentence
    assert (" " in sentence) == language.spaced
    assert len(sentence.replace(" ", "")) == len("".join(words[:300]))


def test_wordfreq_has_the_languages_it_is_asked_for():
    asked = {language.wordfreq for language in LANGUAGES.values()} - {"-"}
    assert asked <= set(wordfreq.available_languages())


def test_words_are_sorted_by_frequency():
    assert frequent_words("ces")[:4] == ("se", "na", "je", "to")


def test_names_stand_in_where_wordfreq_would_answer_in_english():
    assert {code for code, language in LANGUAGES.items() if language.wordfreq == "-"} == {"kat", "swa", "yue"}
    assert "世界" in frequent_words("yue")
    assert "the" not in frequent_words("yue")
    assert "დღე" not in frequent_words("swa")
    assert "jumatatu" in frequent_words("swa")


def test_marks_of_vowels_are_kept():
    assert "में" in frequent_words("hin")
    assert "என்று" in frequent_words("tam")


def test_letters_that_case_folding_undoes_are_spelled_right_or_skipped():
    assert "της" in frequent_words("ell")
    assert not any(word.endswith("σ") for word in frequent_words("ell"))
    assert not any("ss" in word for word in frequent_words("deu"))


def test_japanese_is_in_kana():
    assert "これ" in frequent_words("jpn")
    assert "日本" not in frequent_words("jpn")


def test_an_unsupported_language_is_rejected_with_the_reason():
    assert set(UNSUPPORTED) == {"heb", "khm", "mya", "tha"}
    for code in (*UNSUPPORTED, "xyz", "nan", "cs"):
        reason = f": {UNSUPPORTED[code]}" if code in UNSUPPORTED else ""
        expected = rf"Cannot synthesize speech for '{code}'{reason}\. .*Supported: ara, .*yue\."
        with pytest.raises(ValueError, match=expected):
            check_languages([code])
    with pytest.raises(ValueError, match=r"for 'cs', 'ko'\. Did you mean ces, kor\? Supported: ara, ben, "):
        check_languages(["cs", "ko", "fra"])


def test_codes_tags_and_names_lead_to_one_code():
    languages = ("ces", "cs", "CS_cz", "Czech", "zh-HK", "lang1")
    assert [likely_code(language) for language in languages] == ["ces", "ces", "ces", "ces", "yue", "lang1"]


def test_words_that_are_spelled_out_or_read_in_english_are_found():
    for reading in ("(en)ðə(cs)", "", "st", "ˌeɪtʃ tˌiː"):
        assert not is_read_well(reading, LANGUAGES["ces"])
    assert is_read_well("dˈen", LANGUAGES["ces"])
    assert [is_read_well(reading, LANGUAGES["ara"]) for reading in ("ʔassalˈaːm", "ʔalmtħdt")] == [True, False]


def test_letters_abbreviations_and_words_of_other_scripts_are_no_words():
    words = ("слово", "word", "2й", "в", "см")
    assert [is_word(word, LANGUAGES["rus"]) for word in words] == [True, False, False, False, False]


@given(
    st.lists(st.floats(0.2, 1.0), min_size=1, max_size=50).map(np.array),
    st.floats(0.0, 20.0),
    st.integers(0, 2**32 - 1),
)
def test_a_sentence_ends_within_one_word_of_the_time(seconds, target, seed):
    chosen = compose(seconds, target, np.random.default_rng(seed))
    assert chosen
    assert chosen == compose(seconds, target, np.random.default_rng(seed))
    if len(chosen) > 1:
        assert abs(seconds[chosen].sum() - target) <= seconds.max()
