"""What would break or bend training, found before it starts.

Every finding names the manifest and line it is about. Errors would break training or make it learn what is wrong;
warnings are what one should know.

Manifests may have any number of lines: they are read twice, a line at a time, and little is kept of each (`known`).
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..prepare.duplicates import digest
from ..prepare.prepare import SPLITS
from ..runtime.progress import Track, untracked
from ..runtime.threads import map_in_threads
from ..speech.audio import MIN_DURATION, TOLERANCE, AudioError, AudioHeader, header, read_audio
from ..speech.normalization import BIDI_CONTROLS
from ..speech.vocabulary import Vocabulary, can_be_character, frames_needed
from ..storage.json_fields import MAX_SECONDS
from ..storage.paths import PathLike
from ..synthetic.voices import likely_code
from .findings import CheckReport, Finding, Findings, Severity
from .index import Known, Part, Placed, Places, stretch_key, text_key

# Of full scale; -80 dB.
SILENT = 1e-4

# An utterance outside these multiples of the typical duration of its text probably has the wrong text. None of 10,800
# recorded and synthetic utterances in 14 languages was.
FASTEST, SLOWEST = 0.5, 3.0

# Characters named in one finding.
MOST_SHOWN = 20

# Of files with several utterances, which would be opened for each of them: some megabytes.
MOST_HEADERS_KEPT = 2**14


def check_dataset(
    folder: PathLike,
    frame_rate: float = 25.0,
    group_by: str = "lang",
    decode: bool = True,
    num_threads: int | None = None,
    track: Track = untracked,
    batch_duration: float = 50.0,
) -> CheckReport:
    """Looks at all lines of a dataset's manifests, and at all its audio.

    Args:
        folder: of the dataset.
        frame_rate: frames a second of the model's output, which transcripts have to fit in.
        group_by: the fields that tell groups apart.
        decode: read the audio whole; otherwise only headers, which do not tell of damage behind them.
        num_threads: that read audio at a time; by default one for each core.
        batch_duration: seconds of a batch; a group with less training audio is a finding.

    Raises:
        ValueError: if there is no dataset, or it changes meanwhile, or an argument is out of range.
    """
    if not 0 < frame_rate < float("inf"):
        raise ValueError(f"`frame_rate` must be positive, in frames a second; got {frame_rate!r}.")
    if not 0 < batch_duration < float("inf"):
        raise ValueError(f"`batch_duration` must be positive seconds; got {batch_duration!r}.")
    folder = Path(folder)
    if not (folder / "train.jsonl").is_file():
        raise ValueError(f"{folder}: no train.jsonl in it; expected a dataset, as `ctcdro prepare` writes it.")
    parts = [Part(folder, split) for split in SPLITS]
    known = Known([name.strip() for name in group_by.split(",")])
    lines = _taken_in(parts, known)
    if not known.totals["train"]:
        first = lines.kept[0]
        raise ValueError(f"{parts[0].path}: no utterances in it. The first fault is at {first.where}: {first.detail}")
    known.settle()
    compared = _Compared(parts, known, frame_rate)
    audio = _about_audio(compared, known, decode, num_threads, track)
    about_all = [_about_groups(known, batch_duration), _about_languages(known)]
    found = [lines, *about_all, compared.characters, compared.repetitions, compared.fit, compared.rates, audio]
    return CheckReport(
        dataset=str(folder),
        frame_rate=frame_rate,
        decoded=decode,
        statistics={split: totals.statistics() for split, totals in known.totals.items() if totals},
        findings=[finding for findings in found for finding in findings.kept],
        counts=sum((findings.counts for findings in found), Counter()),
        durations={name: np.frombuffer(seconds) for name, seconds in sorted(known.groups.items())},
    )


def _taken_in(parts: Sequence[Part], known: Known) -> Findings:
    """Reads all lines; those that hold no utterance are findings, and manifests that have none."""
    findings = Findings()
    for part in parts:
        for one in part.placed(malformed=findings):
            known.add(part, one)
        if not known.totals[part.split]:
            detail = "there are no utterances in it" if part.is_there else "there is no such file"
            findings.add(Finding(f"no {part.split} data", "warning", str(part.path), detail))
    return findings


def _about_groups(known: Known, batch_duration: float) -> Findings:
    """Reports utterances without group, and groups with less audio than one batch."""
    findings = Findings()
    for why, places in known.without_group.items():
        detail = f"{why} ({places.number} utterances, first here)"
        findings.add(Finding("no group", "error", places.first, detail))
    for group, durations in sorted(known.groups.items()):
        if (seconds := sum(durations)) < batch_duration:
            detail = (
                f"{group}: {_counted(len(durations))}, {seconds:.1f} s in train; every batch of {batch_duration:g} s "
                "repeats them"
            )
            findings.add(Finding("less than one batch of audio", "warning", known.group_places[group].first, detail))
    return findings


def _about_languages(known: Known) -> Findings:
    """Reports languages without dev or test data, and codes that look like another language."""
    findings = Findings()
    others = [split for split in SPLITS[1:] if known.totals[split]]
    for language, places in sorted(known.places.items()):
        missing = [split for split in others if split not in places]
        if "train" in places and missing:
            detail = f"{language}: {_counted(places['train'].number)} in train, none in {' and '.join(missing)}"
            findings.add(Finding("language without dev or test data", "warning", places["train"].first, detail))
    numbers = {language: sum(own.number for own in places.values()) for language, places in known.places.items()}
    most_common: dict[str, str] = {}
    for language in sorted(numbers, key=lambda language: (-numbers[language], language)):
        other = most_common.setdefault(likely_code(language), language)
        if other != language:
            detail = (
                f"{language} ({_counted(numbers[language])}) and {other} ({_counted(numbers[other])}) look like one "
                "language; give them the same code, otherwise they are separate groups"
            )
            first = next(iter(known.places[language].values())).first
            findings.add(Finding("near-duplicate language codes", "warning", first, detail))
    return findings


def _counted(number: int) -> str:
    return f"{number:,} utterance{'s' if number != 1 else ''}"


class _Compared:
    """The lines, each compared with what is known of all; what is found gathers as they are taken."""

    def __init__(self, parts: Sequence[Part], known: Known, frame_rate: float) -> None:
        self.characters, self.repetitions, self.fit, self.rates = Findings(), Findings(), Findings(), Findings()
        self._parts = parts
        self._known = known
        self._frame_rate = frame_rate
        self._usable = {character for character in known.trained_characters if can_be_character(character)}
        self._vocabulary = Vocabulary(known.languages, self._usable)

    def __iter__(self) -> Iterator[Placed]:
        for part in self._parts:
            untrained = _Untrained(part.split)
            for one in part.placed():
                self._look_at_characters(part, one, untrained)
                self._look_for_repetitions(part, one)
                self._look_at_fit(part, one)
                self._look_at_rate(one)
                yield one
            for finding in untrained.findings():
                self.characters.add(finding)

    def _look_at_characters(self, part: Part, one: Placed, untrained: _Untrained) -> None:
        """Characters that labels cannot have, and what training data never show."""
        utterance = one.utterance
        if not utterance.text.strip():
            severity: Severity = "error" if part.split == "train" else "warning"
            self.characters.add(Finding("empty transcript", severity, one.where, "`text` is empty"))
        for character in sorted({*utterance.text} - self._usable):
            if not can_be_character(character):
                detail = f"{_named(character)} cannot be a label; normalize the text with a profile"
                self.characters.add(Finding("unusable character", "error", one.where, detail))
            else:
                untrained.characters[utterance.lang].add(character)
                untrained.of_characters[utterance.lang].add(one)
        for character in sorted(BIDI_CONTROLS.intersection(utterance.text)):
            detail = f"{_named(character)} is invisible and would become a label; remove it, as the profile clean does"
            self.characters.add(Finding("bidirectional control character", "warning", one.where, detail))
        if utterance.lang not in self._known.trained_languages:
            untrained.of_languages[utterance.lang].add(one)

    def _look_for_repetitions(self, part: Part, one: Placed) -> None:
        """Texts and audio that stand in two splits, so that what is tested was learnt by heart; and ids that come
        twice."""
        known, utterance = self._known, one.utterance
        place = one.line * len(SPLITS) + part.number
        if known.texts:
            before = known.texts.first(text_key(utterance), place)
            if before % len(SPLITS) != part.number:
                self._add_repetition("same text in two splits", one, f"{utterance.text!r:.60}", before)
        if known.stretches:
            before = known.stretches.first(stretch_key(utterance), place)
            if before % len(SPLITS) != part.number:
                path = os.path.normpath(utterance.audio_filepath)
                self._add_repetition("same audio in two splits", one, path, before)
        if known.ids and utterance.id is not None:
            before = known.ids.first(digest(utterance.id), place)
            if before != place:
                self._add_repetition("same id again", one, f"{utterance.id!r:.60}", before)

    def _add_repetition(self, kind: str, one: Placed, what: str, before: int) -> None:
        line, number = divmod(before, len(SPLITS))
        detail = f"{what} is at {self._parts[number].path}:{line} too"
        self.repetitions.add(Finding(kind, "warning", one.where, detail))

    def _look_at_fit(self, part: Part, one: Placed) -> None:
        """Transcripts longer than CTC can fit to the frames: their loss is infinite."""
        utterance = one.utterance
        needed = frames_needed(self._vocabulary.encode(utterance.text, utterance.lang))
        frames = num_frames(utterance.duration, self._frame_rate)
        if frames < needed:
            severity: Severity = "error" if part.split == "train" else "warning"
            detail = (
                f"{utterance.duration:.2f} s are {frames} frames at {self._frame_rate:g} Hz, the labels need {needed}"
            )
            self.fit.add(Finding("transcript too long for CTC", severity, one.where, detail))

    def _look_at_rate(self, one: Placed) -> None:
        """Reports texts that are far too long or too short for their audio, and probably belong to other audio."""
        utterance = one.utterance
        number, pace = len(utterance.text), self._known.paces.get(utterance.lang)
        if not number or pace is None:
            return
        typical = pace.seconds(number)
        if not FASTEST * typical <= utterance.duration <= SLOWEST * typical:
            detail = (
                f"{number} characters in {utterance.duration:.2f} s, {number / utterance.duration:.1f} per second; "
                f"typical of {utterance.lang} would be {typical:.2f} s"
            )
            self.rates.add(Finding("implausible character rate", "warning", one.where, detail))


class _Untrained:
    """Languages and characters of a split that training data do not have."""

    def __init__(self, split: str) -> None:
        self._split = split
        self.of_languages: dict[str, Places] = defaultdict(Places)
        self.of_characters: dict[str, Places] = defaultdict(Places)
        """By language."""
        self.characters: dict[str, set[str]] = defaultdict(set)

    def findings(self) -> Iterator[Finding]:
        for language, places in self.of_languages.items():
            detail = f"{language}: {places.number} utterances in {self._split}, none in train, so that it has no token"
            yield Finding("language without training data", "error", places.first, detail)
        for language, characters in sorted(self.characters.items()):
            places = self.of_characters[language]
            shown = ", ".join(map(_named, sorted(characters)[:MOST_SHOWN]))
            shown += "…" if len(characters) > MOST_SHOWN else ""
            detail = f"{language}: {len(characters)} characters, {places.number} times in {self._split}, first here: "
            yield Finding("characters unseen in training", "warning", places.first, detail + shown)


def _named(character: str) -> str:
    return f"{character!r} (U+{ord(character):04X})"


def num_frames(duration: float, frame_rate: float) -> int:
    """Frames of a model that looks at `MIN_DURATION` seconds at a time.

    Example:
        >>> num_frames(1.0, frame_rate=50)
        49
    """
    # A whole number of hops may come out as a hair less.
    return max(0, math.floor((min(duration, MAX_SECONDS) - MIN_DURATION) * frame_rate + 1e-6) + 1)


def _about_audio(placed: _Compared, known: Known, decode: bool, num_threads: int | None, track: Track) -> Findings:
    shared_header = lru_cache(MOST_HEADERS_KEPT)(header)

    def looked_at(one: Placed) -> Finding | None:
        is_whole = known.is_whole(one.utterance)
        header_of: Callable[[str], AudioHeader] = header if is_whole else shared_header
        return _about_file(one, is_whole, decode, header_of)

    findings = Findings()
    found = map_in_threads(looked_at, placed, num_threads or os.cpu_count() or 1)
    for finding in track(found, "reading audio" if decode else "reading audio headers", known.num_utterances):
        if finding:
            findings.add(finding)
    return findings


def _about_file(one: Placed, is_whole: bool, decode: bool, header_of: Callable[[str], AudioHeader]) -> Finding | None:
    """What is wrong with the audio of an utterance.

    Args:
        is_whole: no other utterance is in the file, so that it should be as long as the utterance.
    """
    where, utterance = one.where, one.utterance
    path = utterance.audio_filepath
    try:
        found = header_of(path)
        seconds = found.duration - utterance.offset
        silent = False
        if decode:
            duration = None if is_whole else min(utterance.duration, max(seconds, 1 / found.sample_rate))
            samples = read_audio(path, utterance.offset, duration, found.sample_rate)
            silent = float(np.abs(samples).max()) < SILENT
            seconds = len(samples) / found.sample_rate if is_whole else seconds
    except AudioError as error:
        kind = "unreadable audio" if os.path.exists(path) else "missing audio"
        return Finding(kind, "error", where, str(error))
    if abs(utterance.duration - seconds) > TOLERANCE and (is_whole or utterance.duration > seconds):
        # Shorter than its file, it may be a stretch on purpose.
        severity: Severity = "error" if utterance.duration > seconds else "warning"
        detail = f"`duration` is {utterance.duration:g} s, of audio there are {seconds:.3f} s: {path}"
        return Finding("duration disagrees with the audio", severity, where, detail)
    if min(seconds, utterance.duration) < MIN_DURATION:
        detail = f"{seconds:.3f} s, encoders need {MIN_DURATION:g} s: {path}"
        return Finding("audio too short", "error", where, detail)
    if silent:
        return Finding("silent audio", "warning", where, f"no sample is over {SILENT:g} of full scale: {path}")
    return None
