"""Text profiles: how transcripts are normalized, both when data are prepared and when they are scored."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from .vocabulary import WORD_SPACE

# Unicode's Bidi_Control characters order what is displayed and are not spoken. Zero-width joiners and non-joiners,
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
    """A table for `str.translate` without what says nothing; it grows as characters come."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        kept = code if character.isspace() or not _says_nothing(character) else None
        if code < 0x10000:  # others are rare, and a million
            self[code] = kept
        return kept


_SPOKEN = _Spoken()


def _says_nothing(character: str) -> bool:
    """Punctuation, control characters, text direction marks, and the label that stands for the space."""
    return (
        unicodedata.category(character) in ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Cc", "Cs")
        or character in BIDI_CONTROLS
        or character == WORD_SPACE
    )


def paper(text: str) -> str:
    """What the authors' preparation does: upper case, no ASCII punctuation, nothing from the first [ to the last ].

    That loses what is said between two tags, and keeps the punctuation of other scripts; it is here to compare with.

    Example:
        >>> paper("[noise] «Dobrý den», řekl. [laugh] Ahoj!")
        'AHOJ'
        >>> paper("«Dobrý den», řekl.")
        '«DOBRÝ DEN» ŘEKL'
    """
    # What the pattern \[[^()]*\] finds, which would look at a text of many [ as often as it has characters.
    text = re.sub(r"[^()]+", lambda stretch: _without_brackets(stretch[0]), text)
    return " ".join(text.translate(str.maketrans("", "", string.punctuation)).upper().split())


def _without_brackets(text: str) -> str:
    """A text without what is from its first [ to its last ]."""
    start, end = text.find("["), text.rfind("]")
    return text[:start] + text[end + 1 :] if 0 <= start < end else text


def none(text: str) -> str:
    """Composed characters (NFC) and single spaces; for texts that are normalized already.

    Example:
        >>> none(" Dobry\u0301  den! ")
        'Dobrý den!'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


PROFILES: dict[str, Callable[[str], str]] = {"clean": clean, "paper": paper, "none": none}


def normalize(text: str, profile: str) -> str:
    """Applies the text profile of that name.

    Example:
        >>> normalize("Ahoj!", "clean")
        'ahoj'
    """
    if profile not in PROFILES:
        raise ValueError(f"`profile` must be one of {', '.join(sorted(PROFILES))}; got {profile!r}.")
    return PROFILES[profile](text)
