"""Checks of transcripts: characters, length, characters per second, and duplicates between splits."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable

from ..speech.audio import MIN_DURATION
from ..speech.language_names import language_name
from ..speech.normalization import BIDI_CONTROLS
from ..speech.vocabulary import Vocabulary, can_be_character, frames_needed
from .findings import Finding, Findings, Severity
from .index import DatasetIndex, FirstAndCount, LocatedUtterance, SplitManifest, audio_key, id_key, text_key

# An utterance outside these multiples of the typical duration of its text probably has the wrong text. None of 10,800
# correct utterances, recorded and synthetic, in 14 languages is outside.
FASTEST, SLOWEST = 0.5, 3.0

# A script in at most this fraction of the utterances of a language is probably a mistake, or text in another language.
RARE_SCRIPT = 0.01

# Characters to list in one finding.
MAX_NAMED = 20


def check_texts(manifests: Iterable[SplitManifest], index: DatasetIndex, frame_rate: float, findings: Findings) -> None:
    _check_scripts(index, findings)
    vocabulary = Vocabulary(index.languages, index.characters)
    first: dict[bytes, tuple[str, str]] = {}  # split and line where each key occurred first
    for manifest in manifests:
        unseen: dict[str, set[str]] = defaultdict(set)
        lines: dict[str, FirstAndCount] = defaultdict(FirstAndCount)
        for located in manifest.read():
            _check_characters(located, findings)
            _check_duplicates(located, index, first, findings)
            _check_length(located, vocabulary, frame_rate, findings)
            _check_rate(located, index, findings)
            language = "+".join(located.utterance.languages)
            for character in filter(can_be_character, set(located.utterance.text) - index.characters):
                unseen[language].add(character)
                lines[language].add(located.where)
        for language, characters in sorted(unseen.items()):
            names = ", ".join(map(_name, sorted(characters)[:MAX_NAMED])) + "…" * (len(characters) > MAX_NAMED)
            counts = f"characters: {len(characters)}, occurrences in {manifest.split}: {lines[language].count}"
            detail = f"{language}: {names}; {counts}, the first on this line"
            findings.warning("characters unseen in training", lines[language].first, detail)


def _check_scripts(index: DatasetIndex, findings: Findings) -> None:
    """Reports scripts that few utterances of a language have. Their letters become letters of the language."""
    for language, scripts in sorted(index.scripts.items()):
        num_utterances = index.languages[language]["train"].count
        for script, lines in sorted(scripts.items()):
            if lines.count <= RARE_SCRIPT * num_utterances:
                counts = f"in {lines.count:,} of {num_utterances:,} utterances in train, the first on this line"
                detail = f"{language_name(language)}: {script} letters {counts}"
                findings.warning("rare script", lines.first, detail)


def _check_characters(located: LocatedUtterance, findings: Findings) -> None:
    text = located.utterance.text
    if not text.strip():
        findings.add(Finding("empty transcript", _severity(located), located.where, "`text` is empty"))
    for character in sorted(set(text)):
        if not can_be_character(character):
            detail = f"{_name(character)} cannot be a label; normalize the text (`ctcdro prepare --text-norm clean`)"
            findings.error("unusable character", located.where, detail)
    for character in sorted(BIDI_CONTROLS.intersection(text)):
        detail = f"{_name(character)} is invisible and would become a label; `--text-norm clean` removes it"
        findings.warning("bidirectional control character", located.where, detail)


def _check_duplicates(
    located: LocatedUtterance, index: DatasetIndex, first: dict[bytes, tuple[str, str]], findings: Findings
) -> None:
    """Reports texts and audio that occur in two splits, and duplicate ids."""
    utterance, split, where = located
    text, audio, id = text_key(utterance), audio_key(utterance), id_key(utterance)
    for kind, key, may_repeat, value in (
        ("same text in two splits", text, text in index.held_out, f"{utterance.text!r:.60}"),
        ("same audio in two splits", audio, audio in index.held_out, os.path.normpath(utterance.audio_filepath)),
        ("duplicate id", id, utterance.id is not None and index.ids[id] > 1, f"{utterance.id!r:.60}"),
    ):
        if may_repeat:
            first_split, first_where = first.setdefault(key, (split, where))
            if first_where != where and (first_split != split or kind == "duplicate id"):
                findings.warning(kind, where, f"{value} is also at {first_where}")


def _check_length(located: LocatedUtterance, vocabulary: Vocabulary, frame_rate: float, findings: Findings) -> None:
    """Reports transcripts with too many labels for their frames, whose CTC loss would be infinite."""
    utterance = located.utterance
    needed = frames_needed(vocabulary.encode(utterance.text, utterance.languages))
    frames = num_frames(utterance.duration, frame_rate)
    if frames < needed:
        detail = f"{utterance.duration:.2f} s are {frames} frames at {frame_rate:g} Hz, but the labels need {needed}"
        findings.add(Finding("transcript too long for CTC", _severity(located), located.where, detail))


def _check_rate(located: LocatedUtterance, index: DatasetIndex, findings: Findings) -> None:
    """Reports texts that are far too long or too short for their audio, which probably belong to other audio."""
    utterance = located.utterance
    count, pace = len(utterance.text), index.paces.get(utterance.lang)
    if not count or pace is None or utterance.lang_shares is not None:  # a mixed text has no pace of one language
        return
    typical = pace.seconds(count)
    if not FASTEST * typical <= utterance.duration <= SLOWEST * typical:
        rate = f"{count} characters in {utterance.duration:.2f} s, {count / utterance.duration:.1f} per second"
        detail = f"{rate}; the typical duration in {language_name(utterance.lang)} is {typical:.2f} s"
        findings.warning("implausible character rate", located.where, detail)


def num_frames(duration: float, frame_rate: float) -> int:
    """Frames of an encoder with a window of `MIN_DURATION` seconds."""
    # A rounding error may put an integer number of hops slightly below it.
    return max(0, math.floor((duration - MIN_DURATION) * frame_rate + 1e-6) + 1)


def _severity(located: LocatedUtterance) -> Severity:
    return "error" if located.split == "train" else "warning"


def _name(character: str) -> str:
    return f"{character!r} (U+{ord(character):04X})"
