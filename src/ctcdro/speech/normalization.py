"""Text profiles: normalization of transcripts for preparation and for scoring."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from .vocabulary import WORD_SPACE

# Unicode's Bidi_Control characters, which control the display and are not spoken. Zero-width joiners and non-joiners,
# which some scripts need, are not among them.
BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean(text: str) -> str:
    """Composed characters (NFC), lower case, no tags in square brackets, no punctuation of any script, no marks of text
    direction, single spaces.

    Example:
        >>> clean("[noise] «Dobrý   den», řekl. [laugh] Ahoj!")
        'dobrý den řekl ahoj'
    """
    text = re.sub(r"\[[^\[\]]*\]", " ", text)
    text = text.translate(_SPOKEN)
    return " ".join(unicodedata.normalize("NFC", text.lower()).split())


class _Spoken(dict[int, int | None]):
    """A table for `str.translate` that removes what is not spoken, and is filled on demand."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        is_silent = (
            unicodedata.category(character) in ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Cc", "Cs")
            or character in BIDI_CONTROLS
            or character == WORD_SPACE
        )
        kept = None if is_silent and not character.isspace() else code
        if code < 0x10000:  # a million others are rare
            self[code] = kept
        return kept


_SPOKEN = _Spoken()


def paper(text: str) -> str:
    """The authors' normalization: upper case, no ASCII punctuation, nothing from the first [ to the last ].

    It loses the text between two tags, and keeps the punctuation of other scripts. Use it for comparisons.

    Example:
        >>> paper("[noise] «Dobrý den», řekl. [laugh] Ahoj!")
        'AHOJ'
        >>> paper("«Dobrý den», řekl.")
        '«DOBRÝ DEN» ŘEKL'
    """
    # Same result as the pattern \[[^()]*\], which takes quadratic time on a text of many [.
    text = re.sub(r"[^()]+", lambda match: _without_brackets(match[0]), text)
    return " ".join(text.translate(str.maketrans("", "", string.punctuation)).upper().split())


def _without_brackets(text: str) -> str:
    start, end = text.find("["), text.rfind("]")
    return text[:start] + text[end + 1 :] if 0 <= start < end else text


def none(text: str) -> str:
    """Composed characters (NFC) and single spaces, for texts that are already normalized."""
    return " ".join(unicodedata.normalize("NFC", text).split())


PROFILES: dict[str, Callable[[str], str]] = {"clean": clean, "paper": paper, "none": none}


def normalize(text: str, text_norm: str) -> str:
    if text_norm not in PROFILES:
        raise ValueError(f"`text_norm` must be one of {', '.join(sorted(PROFILES))}; got {text_norm!r}.")
    return PROFILES[text_norm](text)
