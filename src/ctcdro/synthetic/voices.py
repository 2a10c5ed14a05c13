"""Languages that eSpeak NG reads in their own script, and the sources of their words.

A language is supported if the voice reads its frequent words as words, not as names of letters and not in English,
judged by the phonemes; nobody has listened to all of them. `words.py` skips single words that fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..prepare.language_codes import language_code


@dataclass(frozen=True)
class Language:
    """Voice, script and word list of a language."""

    name: str
    voice: str
    """Name of the voice in eSpeak NG."""
    script: str = "Latin"
    """One of `words.SCRIPTS`."""
    wordfreq: str | None = None
    """Code in wordfreq; None if wordfreq has no list for it, and would return English words."""
    locale: str | None = None
    """CLDR locale in babel, a source of words without wordfreq."""
    sample: str | None = None
    """Text in gflanguages, another source of words without wordfreq."""
    spaced: bool = True
    """Whether there are spaces between words."""
    avoid: str | None = None
    """Letters that wordfreq may use in place of others: words with them are skipped."""


LANGUAGES = {
    "ara": Language("Arabic", "ar", "Arabic", "ar"),
    "ben": Language("Bengali", "bn", "Bengali", "bn"),
    "bul": Language("Bulgarian", "bg", "Cyrillic", "bg"),
    "cat": Language("Catalan", "ca", wordfreq="ca"),
    "ces": Language("Czech", "cs", wordfreq="cs"),
    "cmn": Language("Mandarin", "cmn", "Han", "zh", spaced=False),
    "dan": Language("Danish", "da", wordfreq="da"),
    "deu": Language("German", "de", wordfreq="de", avoid="ss"),
    "ell": Language("Greek", "el", "Greek", "el"),
    "eng": Language("English", "en-us", wordfreq="en"),
    "fas": Language("Persian", "fa", "Arabic", "fa"),
    "fin": Language("Finnish", "fi", wordfreq="fi"),
    "fra": Language("French", "fr", wordfreq="fr"),
    "hin": Language("Hindi", "hi", "Devanagari", "hi"),
    "hrv": Language("Croatian", "hr", wordfreq="sh"),
    "hun": Language("Hungarian", "hu", wordfreq="hu"),
    "ind": Language("Indonesian", "id", wordfreq="id"),
    "isl": Language("Icelandic", "is", wordfreq="is"),
    "ita": Language("Italian", "it", wordfreq="it"),
    "jpn": Language("Japanese, in kana", "ja", "Kana", "ja", spaced=False),
    "kat": Language("Georgian", "ka", "Georgian", locale="ka", sample="ka_Geor"),
    "kor": Language("Korean", "ko", "Hangul", "ko"),
    "lav": Language("Latvian", "lv", wordfreq="lv"),
    "lit": Language("Lithuanian", "lt", wordfreq="lt"),
    "mkd": Language("Macedonian", "mk", "Cyrillic", "mk"),
    "nld": Language("Dutch", "nl", wordfreq="nl"),
    "nob": Language("Norwegian Bokmål", "nb", wordfreq="nb"),
    "pol": Language("Polish", "pl", wordfreq="pl"),
    "por": Language("Portuguese", "pt", wordfreq="pt"),
    "ron": Language("Romanian", "ro", wordfreq="ro"),
    "rus": Language("Russian", "ru", "Cyrillic", "ru"),
    "slk": Language("Slovak", "sk", wordfreq="sk"),
    "slv": Language("Slovenian", "sl", wordfreq="sl"),
    "spa": Language("Spanish", "es", wordfreq="es"),
    "swa": Language("Swahili", "sw", locale="sw", sample="sw_Latn"),
    "swe": Language("Swedish", "sv", wordfreq="sv"),
    "tam": Language("Tamil", "ta", "Tamil", "ta"),
    "tur": Language("Turkish", "tr", wordfreq="tr"),
    "ukr": Language("Ukrainian", "uk", "Cyrillic", "uk"),
    "urd": Language("Urdu", "ur", "Arabic", "ur"),
    "vie": Language("Vietnamese", "vi", wordfreq="vi"),
    "yue": Language("Cantonese", "yue", "Han", locale="yue", sample="yue_Hant", spaced=False),
}

UNSUPPORTED = {
    "heb": "eSpeak NG reads Hebrew without the vowels that its script omits",
    "khm": "eSpeak NG has no voice for Khmer",
    "mya": "eSpeak NG reads Burmese script without its vowels",
    "tha": "eSpeak NG does not separate words in Thai script, and misplaces its vowels",
}

# Variants of a voice that differ most in pitch and timbre, without being effects.
VARIANTS = ("m1", "f2", "m3", "f4", "klatt4", "f5", "m7", "Annie")


def likely_code(language: str) -> str:
    """The ISO 639-3 code for a code, a tag or an English name; the name itself in lower case if it is unknown.

    Example:
        >>> [likely_code(language) for language in ("ces", "cs", "CS_cz", "Czech", "zh-HK", "lang1")]
        ['ces', 'ces', 'ces', 'ces', 'yue', 'lang1']
    """
    language = language.casefold()
    for code, known in LANGUAGES.items():
        if language == known.name.split(",")[0].casefold():
            return code
    try:
        return language_code(language) if re.match(r"[a-z]{2,3}([-_]|$)", language) else language
    except ValueError:
        return language


def check_languages(codes: Iterable[str]) -> None:
    """Rejects languages for which no speech can be synthesized.

    Example:
        >>> check_languages(["cs", "ko", "fra"])
        Traceback (most recent call last):
        ValueError: Cannot synthesize speech for 'cs', 'ko'. Did you mean ces, kor? Supported: ara, ben, ...
        >>> check_languages(["khm"])
        Traceback (most recent call last):
        ValueError: Cannot synthesize speech for 'khm': eSpeak NG has no voice for Khmer. Supported: ara, ben, ...
    """
    unknown = [code for code in codes if code not in LANGUAGES]
    if unknown:
        reasons = "; ".join(UNSUPPORTED[code] for code in unknown if code in UNSUPPORTED)
        similar = [code for code in dict.fromkeys(map(likely_code, unknown)) if code in LANGUAGES]
        raise ValueError(
            f"Cannot synthesize speech for {', '.join(map(repr, unknown))}{': ' if reasons else ''}{reasons}."
            f"{' Did you mean ' + ', '.join(similar) + '?' if similar else ''} Supported: {', '.join(LANGUAGES)}."
        )


def find_language(code: str) -> Language:
    """The language of an ISO 639-3 code.

    Raises:
        ValueError: if no speech can be synthesized for it.
    """
    check_languages([code])
    return LANGUAGES[code]
