"""Entries of a corpus, as returned by its reader: utterances, and entries that were dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..speech.audio import TOLERANCE
from ..storage.paths import escapes_folder

SPLITS = ("train", "dev", "test")

TOO_LONG = "too long"
MISSING_CORPUS = "missing corpus"
EXPECTED_REASONS = (TOO_LONG, MISSING_CORPUS)
"""Reasons that the user requested; all others are errors in the corpus."""


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """An utterance as listed in a corpus, before its audio is read."""

    split: str
    audio: str
    text: str
    lang: str
    where: str
    """File and line, for messages."""
    id: str | None = None
    corpus: str | None = None
    speaker: str | None = None
    offset: float = 0.0
    duration: float | None = None
    """Seconds from `offset`; None for the rest of the file."""
    overshoot: float = TOLERANCE
    """Seconds by which the utterance may exceed the file; it is then cut."""
    lang_shares: Mapping[str, float] | None = None
    """The share of each language, if there are several; `lang` is the largest."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An entry that is not part of the dataset."""

    split: str
    lang: str
    where: str
    reason: str
    """The kind of problem, such as "missing audio"."""
    detail: str
    id: str | None = None


def entry_in_folder(
    folder: Path, file: str, *, split: str, lang: str, where: str, id: str, **fields: Any
) -> CorpusEntry | Dropped:
    """An entry whose audio path is relative to `folder` and must not point outside it."""
    if escapes_folder(file):
        return Dropped(split, lang, where, "malformed line", f"{file!r:.60} points outside {folder}", id)
    return CorpusEntry(split=split, audio=str(folder / file), lang=lang, where=where, id=id, **fields)
