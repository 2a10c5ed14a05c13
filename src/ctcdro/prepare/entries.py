"""Entries of a corpus, as its reader returns them: utterances, and those that were dropped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..speech.audio import TOLERANCE
from ..storage.paths import escapes_folder

SPLITS = ("train", "dev", "test")

TOO_LONG = "too long"
MISSING_CORPUS = "missing corpus"
EXPECTED_REASONS = (TOO_LONG, MISSING_CORPUS)
"""Reasons to drop an entry that the user asked for; all others are errors of the corpus."""


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """An utterance as a corpus lists it, before its audio is read."""

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
    """Seconds by which the utterance may end after the file; it is cut there."""


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
    """An entry whose audio the corpus names relative to `folder`, which the name must not lead out of."""
    if escapes_folder(file):
        return Dropped(split, lang, where, "malformed line", f"{file!r:.60} leads out of {folder}", id)
    return CorpusEntry(split=split, audio=str(folder / file), lang=lang, where=where, id=id, **fields)
