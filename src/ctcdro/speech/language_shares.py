"""Languages of an utterance that has several, as in code-switching: {"cmn": 0.6, "eng": 0.4}, in order of appearance.

Shares are positive and sum to 1. They come from segments with times, or from the text if its languages have different
scripts. Then each character has a language, too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..runtime.extras import extra
from ..storage.field_checks import check_text, shorten

TOLERANCE = 1e-3
"""How far the sum of shares may be from 1."""

# The first words of the Unicode names of the letters of each script, by its ISO 15924 code.
_LETTERS = {
    "Hans": ("CJK",),
    "Hant": ("CJK",),
    "Jpan": ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "Kore": ("HANGUL", "CJK"),
    "Latn": ("LATIN",),
    "Cyrl": ("CYRILLIC",),
    "Grek": ("GREEK",),
    "Armn": ("ARMENIAN",),
    "Geor": ("GEORGIAN",),
    "Arab": ("ARABIC",),
    "Hebr": ("HEBREW",),
    "Ethi": ("ETHIOPIC",),
    "Thaa": ("THAANA",),
    "Deva": ("DEVANAGARI",),
    "Beng": ("BENGALI",),
    "Gujr": ("GUJARATI",),
    "Guru": ("GURMUKHI",),
    "Orya": ("ORIYA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Knda": ("KANNADA",),
    "Mlym": ("MALAYALAM",),
    "Sinh": ("SINHALA",),
    "Tibt": ("TIBETAN",),
    "Mymr": ("MYANMAR",),
    "Khmr": ("KHMER",),
    "Laoo": ("LAO",),
    "Thai": ("THAI",),
}
_SCRIPT_NAMES = frozenset(name for names in _LETTERS.values() for name in names)


def check_shares(name: str, shares: Mapping[Any, Any]) -> dict[str, float]:
    """Shares as floats. A ValueError names the field unless they are positive and sum to 1."""
    for key, share in shares.items():
        check_text(name, key)
        if not isinstance(share, int | float) or isinstance(share, bool) or not share > 0:
            raise ValueError(f"`{name}` must have positive shares, such as {{'cmn': 0.6, 'eng': 0.4}}, got {share!r}")
    if abs(sum(shares.values()) - 1) > TOLERANCE:
        raise ValueError(f"`{name}` must have shares that sum to 1, got {shorten(dict(shares))}")
    return {key: float(share) for key, share in shares.items()}


def largest_share(shares: Mapping[str, float]) -> str:
    """The name with the largest share; the first if there is a tie."""
    return max(shares, key=shares.__getitem__)


def shares_from_segments(segments: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The share of each language in the total duration of the segments of an utterance.

    Args:
        segments: language and seconds of each segment, in order of appearance.

    Example:
        >>> shares_from_segments([("cmn", 1.5), ("eng", 1.0), ("cmn", 1.5)])
        {'cmn': 0.75, 'eng': 0.25}
    """
    seconds: dict[str, float] = {}
    for language, duration in segments:
        seconds[language] = seconds.get(language, 0.0) + duration
    return _normalize(seconds, "segments")


def shares_from_text(text: str, languages: Sequence[str]) -> dict[str, float]:
    """The share of each language in the letters of a text, by script. Languages without letters are omitted.

    Raises:
        ValueError: if two of the languages share a script, or the script of one is unknown, or no letter has one.

    Example:
        >>> shares_from_text("我想 cancel 掉", ["cmn", "eng"])
        {'cmn': 0.3333333333333333, 'eng': 0.6666666666666666}
    """
    found = languages_of_characters(text, languages)
    if found is None:
        raise ValueError(
            f"`languages` must have scripts that differ; those of {', '.join(languages)} do not, or are unknown. "
            "Specify the shares, or compute them from segments."
        )
    letters: dict[str, float] = {}
    for character, language in zip(text, found, strict=True):
        if language is not None and character.isalpha():
            letters[language] = letters.get(language, 0.0) + 1
    return _normalize(letters, "text")


def languages_of_characters(text: str, languages: Sequence[str]) -> list[str | None] | None:
    """The language of each character, by script; None if two languages share one, or the script of one is unknown.

    Spaces, digits and signs have the language of the letter before them. Letters of other scripts have none.

    Example:
        >>> languages_of_characters("我 ok", ["cmn", "eng"])
        ['cmn', 'cmn', 'eng', 'eng']
        >>> languages_of_characters("ahoj", ["ces", "eng"]) is None
        True
    """
    scripts = {language: _letters_of(language) for language in languages}
    names = [name for found in scripts.values() for name in found]
    if not all(scripts.values()) or len(names) != len(set(names)):
        return None
    language_of = {name: language for language, found in scripts.items() for name in found}
    result: list[str | None] = []
    current = None
    for character in text:
        if character.isalpha() or unicodedata.category(character).startswith("M"):
            current = language_of.get(unicodedata.name(character, "?").split()[0])
        result.append(current)
    return result


@cache
def script_of(character: str) -> str | None:
    """The script of a letter by its Unicode name, such as "CYRILLIC"; None for marks, signs and rare scripts."""
    name = unicodedata.name(character, "?").split()[0]
    is_letter = unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lo")  # modifiers belong to several scripts
    return name if is_letter and name in _SCRIPT_NAMES else None


@cache
def _letters_of(language: str) -> frozenset[str]:
    """First words of the names of a language's letters; empty if its script is unknown."""
    with extra("data", "Scripts of languages"):
        from langcodes import Language, tag_parser
    try:
        script = Language.get(language).maximize().script or ""
    except tag_parser.LanguageTagError:
        return frozenset()
    return frozenset(_LETTERS.get(script, ()))


def _normalize(amounts: Mapping[str, float], name: str) -> dict[str, float]:
    total = sum(amounts.values())
    if not total > 0:
        raise ValueError(f"`{name}` must have at least one part with a language; got none.")
    return {language: amount / total for language, amount in amounts.items()}
