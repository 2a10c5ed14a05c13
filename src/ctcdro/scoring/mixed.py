"""Utterances in several languages: which part of their errors, and of their reference, belongs to each language.

Where the scripts of the languages differ, each reference character has a language, and so has each edit: a substitution
or deletion that of its reference character, an insertion that of the inserted character. Elsewhere, and for words and
language accuracy, languages have the shares of the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..speech.language_shares import languages_of_characters
from .edits import Floats, Integers

with extra("data", "Counting edits"):
    from rapidfuzz.distance import Levenshtein


@dataclass(frozen=True)
class Parts:
    """The parts of utterances that belong to one language: one part per utterance and language."""

    utterance: Integers
    """(m,) index of the utterance."""
    language: Integers
    """(m,) index of the language."""
    share: Floats
    """(m,) share of the language in the utterance."""
    of_edits: Floats
    """(m,) share of its character edits."""
    of_reference: Floats
    """(m,) share of its reference characters."""

    @classmethod
    def whole(cls, language: Integers) -> Parts:
        """One part per utterance, if none is in several languages."""
        ones = np.ones(len(language))
        return cls(np.arange(len(language)), language, ones, ones, ones)

    def of(self, selected: npt.NDArray[np.bool_]) -> Parts:
        return Parts(*(getattr(self, name)[selected] for name in self.__dataclass_fields__))


def split(
    shares_of: Sequence[Mapping[str, float]],
    languages: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
) -> Parts:
    """Splits utterances into parts.

    Args:
        shares_of: the shares of the languages of each utterance.
        languages: all languages, in the order of their indices.
        references, hypotheses: normalized texts.
    """
    index = {name: number for number, name in enumerate(languages)}
    rows = []
    for number, shares in enumerate(shares_of):
        attributed = attribute(shares, references[number], hypotheses[number])
        rows += [(number, index[name], share, *attributed[name]) for name, share in shares.items()]
    utterance, language, *rest = np.array(rows, dtype=np.float64).T
    return Parts(utterance.astype(np.int64), language.astype(np.int64), *rest)


def attribute(shares: Mapping[str, float], reference: str, hypothesis: str) -> dict[str, tuple[float, float]]:
    """The share of each language in the edits and in the reference characters of an utterance.

    Example:
        >>> attribute({"cmn": 0.5, "eng": 0.5}, "我想ok", "我想om")
        {'cmn': (0.0, 0.5), 'eng': (1.0, 0.5)}
        >>> attribute({"ces": 0.25, "eng": 0.75}, "ahoj", "ahoi")
        {'ces': (0.25, 0.25), 'eng': (0.75, 0.75)}
    """
    proportional = {name: (share, share) for name, share in shares.items()}
    said, recognized = (languages_of_characters(text, list(shares)) for text in (reference, hypothesis))
    if len(shares) == 1 or said is None or recognized is None or not any(said):
        return proportional
    characters = Counter(name for name in said if name is not None)
    edits: Counter[str | None] = Counter()
    for edit in Levenshtein.editops(reference, hypothesis):
        name = recognized[edit.dest_pos] if edit.tag == "insert" else said[edit.src_pos]
        edits[name] += 1
    unknown = edits.pop(None, 0)  # in characters of other scripts: in proportion to the characters
    total, num_edits = characters.total(), edits.total() + unknown
    result = {}
    for name in shares:
        of_reference = characters[name] / total
        of_edits = (edits[name] + unknown * of_reference) / num_edits if num_edits else of_reference
        result[name] = (of_edits, of_reference)
    return result
