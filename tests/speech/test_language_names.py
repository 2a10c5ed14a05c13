"""Names of languages."""

import pytest

from ctcdro.prepare.readers.ml_superb_sets import SETS
from ctcdro.speech.language_names import language_name


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("kor", "Korean (kor)"),
        ("cs", "Czech (cs)"),
        ("cmn", "Mandarin Chinese (cmn)"),
        ("ell", "Modern Greek (ell)"),
        ("swa", "Swahili (swa)"),
        ("nob", "Norwegian Bokmål (nob)"),
    ],
)
def test_a_code_is_shown_with_the_name_of_its_language(code, shown):
    assert language_name(code) == shown


@pytest.mark.parametrize(
    "text", ["", "none", "ces/fleurs", "org_jpn", "cs_cz", "KOR", "qqq", "qaa..qtz", "x\x1b[2J", "Czech"]
)
def test_other_text_is_unchanged(text):
    assert language_name(text) == text


def test_all_languages_of_the_paper_have_a_name():
    languages = {language for pairs in SETS.values() for language, _ in pairs}
    assert [language for language in languages if language_name(language) == language] == []
