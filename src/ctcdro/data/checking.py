"""What would break or bend training, found before it starts.

Every finding names the manifest and line it is about. Errors would break training or make it learn what is wrong;
warnings are what one should know.
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..files import PathLike
from ..progress import Track, untracked
from ..utterance import LONGEST, Utterance, group_name
from ..vocab import Vocabulary, can_be_character, can_be_language, frames_needed
from .audio import MIN_DURATION, TOLERANCE, AudioError, header, read_audio
from .json_records import read_records
from .parallel import mapped
from .preparing import SPLITS
from .statistics import Statistics, by_language

# Of full scale; -80 dB.
SILENT = 1e-4

# Characters named in one finding.
MOST_SHOWN = 20

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, where, and what about it."""

    kind: str
    severity: Severity
    where: str
    detail: str


@dataclass(frozen=True)
class Report:
    """What was found in a dataset."""

    dataset: str
    frame_rate: float
    decoded: bool
    """Whether the audio was read, or only its headers."""
    statistics: dict[str, dict[str, Statistics]]
    """By split and language."""
    findings: list[Finding]
    durations: dict[str, npt.NDArray[np.float64]] = field(repr=False)
    """Seconds of the training utterances, by group."""

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    def by_kind(self) -> dict[str, list[Finding]]:
        """Findings by their kind, errors first."""
        found: dict[str, list[Finding]] = defaultdict(list)
        for finding in sorted(self.findings, key=lambda finding: (finding.severity, finding.kind)):
            found[finding.kind].append(finding)
        return dict(found)

    def to_json(self) -> str:
        """All but the durations."""
        statistics = {
            split: {language: asdict(one) for language, one in languages.items()}
            for split, languages in self.statistics.items()
        }
        record = {
            "dataset": self.dataset,
            "frame_rate": self.frame_rate,
            "decoded": self.decoded,
            "errors": len(self.errors),
            "warnings": len(self.findings) - len(self.errors),
            "statistics": statistics,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(record, ensure_ascii=False, indent=2)


class Placed(NamedTuple):
    """An utterance and where it stands."""

    where: str
    utterance: Utterance


def check_dataset(
    folder: PathLike,
    frame_rate: float = 25.0,
    group_by: str = "lang",
    decode: bool = True,
    num_threads: int | None = None,
    track: Track = untracked,
) -> Report:
    """Looks at all lines of a dataset's manifests, and at all its audio.

    Args:
        folder: of the dataset.
        frame_rate: frames a second of the model's output, which transcripts have to fit in.
        group_by: the fields that tell groups apart.
        decode: read the audio whole; otherwise only headers, which do not tell of damage behind them.
        num_threads: that read audio at a time; by default one for each core.

    Raises:
        ValueError: if there is no dataset, or an argument is out of range.
    """
    if not 0 < frame_rate < float("inf"):
        raise ValueError(f"`frame_rate` must be positive, in frames a second; got {frame_rate!r}.")
    folder = Path(folder)
    if not (folder / "train.jsonl").is_file():
        raise ValueError(f"{folder}: no train.jsonl in it; expected a dataset, as `ctcdro prepare` writes it.")
    findings: list[Finding] = []
    splits: dict[str, list[Placed]] = {}
    for split in SPLITS:
        path = folder / f"{split}.jsonl"
        splits[split] = list(_placed(path, findings)) if path.is_file() else []
        if not splits[split]:
            detail = "there are no utterances in it" if path.is_file() else "there is no such file"
            findings.append(Finding(f"no {split} data", "warning", str(path), detail))
    if not splits["train"]:
        first = f" The first fault is at {findings[0].where}: {findings[0].detail}" if findings else ""
        raise ValueError(f"{folder / 'train.jsonl'}: no utterances in it.{first}")
    groups = _groups(splits, group_by, findings)
    findings += _about_characters(splits)
    findings += _about_repetitions(splits)
    findings += _about_fit(splits, frame_rate)
    findings += _about_audio(splits, decode, num_threads, track)
    return Report(
        dataset=str(folder),
        frame_rate=frame_rate,
        decoded=decode,
        statistics={split: by_language(one.utterance for one in placed) for split, placed in splits.items() if placed},
        findings=findings,
        durations={name: np.array(seconds) for name, seconds in sorted(groups.items())},
    )


def _placed(path: Path, findings: list[Finding]) -> Iterator[Placed]:
    """The utterances of a manifest; lines that hold none are findings."""
    for number, record in read_records(path):
        where = f"{path}:{number}"
        try:
            if isinstance(record, str):
                raise ValueError(record)
            utterance = Utterance.from_record(record, path.parent)
            if not can_be_language(utterance.lang):
                raise ValueError(f"`lang` must have no spaces or brackets, got {utterance.lang!r:.60}")
        except ValueError as error:
            findings.append(Finding("malformed line", "error", where, str(error)))
            continue
        yield Placed(where, utterance)


def _groups(splits: Mapping[str, Sequence[Placed]], group_by: str, findings: list[Finding]) -> dict[str, list[float]]:
    """Seconds of the training utterances of each group; utterances without group are findings."""
    by = [name.strip() for name in group_by.split(",")]
    groups: dict[str, list[float]] = defaultdict(list)
    without: dict[str, list[str]] = defaultdict(list)
    for split, placed in splits.items():
        for where, utterance in placed:
            try:
                name = group_name(utterance, by)
            except ValueError as error:
                without[f"{split}: {error}"].append(where)
                continue
            if split == "train":
                groups[name].append(utterance.duration)
            elif name not in groups and by != ["lang"]:  # of languages it is said elsewhere
                without[f"{split}: group {name!r} is not in train"].append(where)
    for detail, places in without.items():
        findings.append(Finding("no group", "error", places[0], f"{detail} ({len(places)} utterances, first here)"))
    return groups


def _about_characters(splits: Mapping[str, Sequence[Placed]]) -> Iterator[Finding]:
    """Characters that labels cannot have, and those of other splits that training data never show."""
    known = {character for one in splits["train"] for character in one.utterance.text}
    languages = {one.utterance.lang for one in splits["train"]}
    for split, placed in splits.items():
        unseen: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        without_training: dict[str, list[str]] = defaultdict(list)
        for where, utterance in placed:
            if not utterance.text.strip():
                yield Finding("empty transcript", "error" if split == "train" else "warning", where, "`text` is empty")
            for character in sorted({*utterance.text}):
                if not can_be_character(character):
                    detail = f"{_named(character)} cannot be a label; normalise the text with a profile"
                    yield Finding("unusable character", "error", where, detail)
                elif character not in known:
                    unseen[utterance.lang][character].append(where)
            if utterance.lang not in languages:
                without_training[utterance.lang].append(where)
        for language, places in without_training.items():
            detail = f"{language}: {len(places)} utterances in {split}, none in train, so that it has no token"
            yield Finding("language without training data", "error", places[0], detail)
        for language, found in sorted(unseen.items()):
            places = [place for places in found.values() for place in places]
            shown = ", ".join(map(_named, sorted(found)[:MOST_SHOWN])) + ("…" if len(found) > MOST_SHOWN else "")
            detail = f"{language}: {len(found)} characters, {len(places)} times in {split}, first here: {shown}"
            yield Finding("characters unseen in training", "warning", places[0], detail)


def _named(character: str) -> str:
    return f"{character!r} (U+{ord(character):04X})"


def _about_repetitions(splits: Mapping[str, Sequence[Placed]]) -> Iterator[Finding]:
    """Texts and audio that stand in two splits, so that what is tested was learnt by heart; and ids that come twice."""
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    stretches: dict[tuple[str, float], tuple[str, str]] = {}
    ids: dict[str, str] = {}
    for split, placed in splits.items():
        for where, utterance in placed:
            before, place = texts.setdefault((utterance.lang, utterance.text), (split, where))
            if before != split:
                yield Finding("same text in two splits", "warning", where, f"{utterance.text!r:.60} is at {place} too")
            path = os.path.normpath(utterance.audio_filepath)
            before, place = stretches.setdefault((path, utterance.offset), (split, where))
            if before != split:
                yield Finding("same audio in two splits", "warning", where, f"{path} is at {place} too")
            if utterance.id is not None and (place := ids.setdefault(utterance.id, where)) != where:
                yield Finding("same id again", "warning", where, f"{utterance.id!r:.60} is at {place} too")


def _about_fit(splits: Mapping[str, Sequence[Placed]], frame_rate: float) -> Iterator[Finding]:
    """Transcripts longer than CTC can fit to the frames: their loss is infinite."""
    train = [one.utterance for one in splits["train"]]
    characters = {character for utterance in train for character in utterance.text if can_be_character(character)}
    vocabulary = Vocabulary({one.utterance.lang for placed in splits.values() for one in placed}, characters)
    for split, placed in splits.items():
        for where, utterance in placed:
            needed = frames_needed(vocabulary.encode(utterance.text, utterance.lang))
            frames = num_frames(utterance.duration, frame_rate)
            if frames < needed:
                detail = (
                    f"{utterance.duration:.2f} s are {frames} frames at {frame_rate:g} Hz, the labels need {needed}"
                )
                yield Finding("transcript too long for CTC", "error" if split == "train" else "warning", where, detail)


def num_frames(duration: float, frame_rate: float) -> int:
    """Frames of a model that looks at `MIN_DURATION` seconds at a time.

    Example:
        >>> num_frames(1.0, frame_rate=50)
        49
    """
    # A whole number of hops may come out as a hair less.
    return max(0, math.floor((min(duration, LONGEST) - MIN_DURATION) * frame_rate + 1e-6) + 1)


def _about_audio(
    splits: Mapping[str, Sequence[Placed]], decode: bool, num_threads: int | None, track: Track
) -> Iterator[Finding]:
    placed = [one for several in splits.values() for one in several]
    uses: dict[str, int] = defaultdict(int)
    for one in placed:
        uses[os.path.normpath(one.utterance.audio_filepath)] += 1

    def looked_at(one: Placed) -> Finding | None:
        is_whole = uses[os.path.normpath(one.utterance.audio_filepath)] == 1 and one.utterance.offset == 0
        return _about_file(one, is_whole, decode)

    found = mapped(looked_at, placed, num_threads or os.cpu_count() or 1)
    description = "reading audio" if decode else "reading audio headers"
    yield from (finding for finding in track(found, description, len(placed)) if finding)


def _about_file(one: Placed, is_whole: bool, decode: bool) -> Finding | None:
    """What is wrong with the audio of an utterance.

    Args:
        is_whole: no other utterance is in the file, so that it should be as long as the utterance.
    """
    where, utterance = one
    path = utterance.audio_filepath
    try:
        found = header(path)
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
