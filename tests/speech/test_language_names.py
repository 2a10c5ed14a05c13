"""Names of languages."""

from ctcdro.prepare.readers.ml_superb_sets import SETS
from ctcdro.speech.language_names import language_name


def test_a_code_is_shown_with_the_name_of_its_language():
    assert language_name("kor") == "Korean (kor)"
    assert language_name("cs") == "Czech (cs)"
    assert language_name("cmn") == "Mandarin Chinese (cmn)"
    assert language_name("ell") == "Modern Greek (ell)"
    assert language_name("swa") == "Swahili (swa)"
    assert language_name("nob") == "Norwegian Bokmål (nob)"


def test_other_text_is_unchanged():
    for text in ("", "none", "ces/fleurs", "org_jpn", "cs_cz", "KOR", "qqq", "qaa..qtz", "x\x1b[2J", "Czech"):
        assert language_name(text) == text


def test_all_languages_of_the_paper_have_a_name():
    languages = {language for pairs in SETS.values() for language, _ in pairs}
    assert [language for language in languages if language_name(language) == language] == []
