"""Languages that eSpeak NG reads in their usual script, from languages.tsv in this folder.

A language is supported if, judged by the phonemes, the voice reads frequent words as words, not as names of letters and
not in English. Nobody has listened to all of them. `words.py` skips single words that fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..prepare.language_codes import language_code


class Language(NamedTuple):
    name: str
    voice: str
    """Name of the voice in eSpeak NG."""
    script: str
    wordfreq: str
    """Code in wordfreq; "-" if wordfreq has no list, and would return English words."""

    @property
    def spaced(self) -> bool:
        """Whether words are separated by spaces."""
        return self.script not in ("Han", "Kana")


def _read_languages() -> dict[str, Language]:
    _, *lines = Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8").splitlines()
    return {code: Language(*fields) for code, *fields in (line.split("\t") for line in lines)}


LANGUAGES = _read_languages()

UNSUPPORTED = {
    "heb": "eSpeak NG does not add the vowels that Hebrew script omits",
    "khm": "eSpeak NG has no voice for Khmer",
    "mya": "eSpeak NG drops the vowels of Burmese script",
    "tha": "eSpeak NG neither segments Thai script into words nor places its vowels correctly",
}

# Variants of a voice that differ most in pitch and timbre and are not sound effects.
VARIANTS = ("m1", "f2", "m3", "f4", "klatt4", "f5", "m7", "Annie")


def likely_code(language: str) -> str:
    """The ISO 639-3 code for a code, a tag or an English name; an unknown name is returned in lower case."""
    language = language.casefold()
    for code, known in LANGUAGES.items():
        if language == known.name.split(",")[0].casefold():
            return code
    try:
        return language_code(language) if re.match(r"[a-z]{2,3}([-_]|$)", language) else language
    except ValueError:
        return language


def check_languages(codes: Iterable[str]) -> None:
    """Rejects languages without a usable voice, and suggests similar codes."""
    unknown = [code for code in codes if code not in LANGUAGES]
    if unknown:
        reasons = "; ".join(UNSUPPORTED[code] for code in unknown if code in UNSUPPORTED)
        similar = [code for code in dict.fromkeys(map(likely_code, unknown)) if code in LANGUAGES]
        raise ValueError(
            f"Cannot synthesize speech for {', '.join(map(repr, unknown))}{': ' if reasons else ''}{reasons}."
            f"{' Did you mean ' + ', '.join(similar) + '?' if similar else ''} Supported: {', '.join(LANGUAGES)}."
        )
