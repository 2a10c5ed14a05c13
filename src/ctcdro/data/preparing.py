"""What all readers share: utterances as a corpus lists them -> a dataset folder.

A reader yields `Listed` utterances, and `Dropped` where a line of the corpus cannot be read. `prepare` looks at the
headers of the audio, never decoding it, applies a text profile and a limit of length, and writes

    train.jsonl, dev.jsonl, test.jsonl   the manifests
    dropped.jsonl                        what was left out, from which line of the corpus, and why
    dataset.json                         reader and options

Each file is written whole, and nothing is written before all is read: what was there before is replaced at the end, or
stays. The order is that of the corpus.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import PathLike, read_json, written_whole
from ..progress import Track, untracked
from ..utterance import Manifest, Utterance
from ..vocab import can_be_language, normalise
from .audio import TOLERANCE, AudioError, header
from .parallel import mapped

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class Listed:
    """An utterance as a corpus lists it, before anyone has looked at its audio."""

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
    """Of the stretch that starts at `offset`; None is up to the end of the file."""
    overshoot: float = TOLERANCE
    """Seconds by which the stretch may end after the file; it is cut there."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An utterance that was left out."""

    split: str
    lang: str
    where: str
    reason: str
    """What kind of fault, as "missing audio"."""
    detail: str
    id: str | None = None


TOO_LONG = "too long"
CORPUS_NOT_THERE = "corpus not there"
NO_FAULTS = (TOO_LONG, CORPUS_NOT_THERE)  # but what was asked for


@dataclass(frozen=True)
class Prepared:
    """A dataset that was written, and what was left out of it."""

    folder: Path
    manifests: dict[str, Manifest]
    dropped: list[Dropped]


def prepare(
    listed: Iterable[Listed | Dropped],
    out: PathLike,
    about: Mapping[str, Any],
    profile: str = "clean",
    max_duration: Mapping[str, float] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    num_threads: int = 16,
    track: Track = untracked,
) -> Prepared:
    """Writes the dataset of what a reader found.

    Args:
        listed: what the reader yields.
        out: the folder to write; it may hold a dataset made with the same `about`, or with `overwrite` any.
        about: reader and options, as `dataset.json` is to tell.
        profile: of `ctcdro.vocab`.
        max_duration: seconds, by split; what is longer is left out. Splits that are not named have no limit.
        strict: stop at the first fault, instead of leaving the utterance out and reporting it. What is too long is
            no fault.
        num_threads: that read headers at a time; more than there are cores help with slow disks and networks.

    Raises:
        ValueError: if an utterance's id has white space, or nothing remains for training; with `strict` at a fault.
    """
    about = {**about, "profile": profile}
    refuse_other_dataset(out, about, overwrite)
    items = list(track(listed, "listing utterances"))
    lengths = _lengths([item.audio for item in items if isinstance(item, Listed)], num_threads, track)
    utterances: dict[str, list[Utterance]] = {split: [] for split in SPLITS}
    dropped: list[Dropped] = []
    seen: set[tuple[str, str]] = set()
    for item in items:
        kept = _judged(item, lengths, profile, max_duration or {}, seen)
        if isinstance(kept, Utterance):
            utterances[item.split].append(kept)
        elif strict and kept.reason not in NO_FAULTS:
            raise ValueError(f"{kept.where}: {kept.reason}: {kept.detail}")
        else:
            dropped.append(kept)
    if not utterances["train"]:
        raise ValueError(f"{out}: not written, since {_nothing_left(dropped)}")
    manifests = {split: Manifest(found) for split, found in utterances.items() if found}
    write_dataset(out, about, manifests, dropped)
    return Prepared(Path(out), manifests, dropped)


def refuse_other_dataset(out: PathLike, about: Mapping[str, Any], overwrite: bool = False) -> None:
    """Sees to it that a folder has no dataset, or one made with the same reader and options.

    Raises:
        ValueError: naming what differs.
    """
    folder = Path(out)
    manifests = [path for path in _manifests(folder) if path.exists()]
    if not manifests or overwrite:
        return
    try:
        there = read_json(folder / "dataset.json")
        here = json.loads(json.dumps(about))
        differing = [f"{key} was {there.get(key)!r:.60}" for key in there | here if there.get(key) != here.get(key)]
    except (OSError, ValueError, AttributeError):
        differing = ["nothing tells how"]
    if differing:
        raise ValueError(
            f"{manifests[0]} is there already, and was made otherwise ({'; '.join(differing)}). Give another folder, "
            f"or --overwrite."
        )


def write_dataset(
    out: PathLike, about: Mapping[str, Any], manifests: Mapping[str, Manifest], dropped: Sequence[Dropped] = ()
) -> None:
    """Writes a dataset, in place of one that is there."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / "dataset.json") as file:
        json.dump(about, file, ensure_ascii=False, indent=2, sort_keys=True)
        file.write("\n")
    with written_whole(folder / "dropped.jsonl") as file:
        file.writelines(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in dropped)
    for split, manifest in manifests.items():
        manifest.write(folder / f"{split}.jsonl")
    for path in _manifests(folder):
        if path.stem not in manifests:
            path.unlink(missing_ok=True)
        for leftover in folder.glob(f".{path.name}.*"):  # of a run that was killed
            leftover.unlink()


def _manifests(folder: Path) -> list[Path]:
    return [folder / f"{split}.jsonl" for split in SPLITS]


def _lengths(paths: Iterable[str], num_threads: int, track: Track) -> dict[str, float | AudioError]:
    """Seconds of each file, by its header; what is wrong with it where it cannot be read."""
    files = list(dict.fromkeys(paths))
    found = track(mapped(_length, files, num_threads), "reading audio headers", len(files))
    return dict(zip(files, found, strict=True))


def _length(path: str) -> float | AudioError:
    try:
        return header(path).duration
    except AudioError as error:
        return error


def _judged(
    item: Listed | Dropped,
    lengths: Mapping[str, float | AudioError],
    profile: str,
    max_duration: Mapping[str, float],
    seen: set[tuple[str, str]],
) -> Utterance | Dropped:
    """The utterance, or why it is left out."""
    if isinstance(item, Dropped):
        return item

    def dropped(reason: str, detail: str) -> Dropped:
        return Dropped(item.split, item.lang, item.where, reason, detail, item.id)

    if item.id is not None:
        if item.id.split() != [item.id]:
            raise ValueError(
                f"{item.where}: utterance ids must have no white space, since tables of results are read by columns; "
                f"got {item.id!r:.60}. Rename it."
            )
        if (item.split, item.id) in seen:
            return dropped("same id again", f"{item.id:.60} comes twice in {item.split}")
    if not can_be_language(item.lang):
        return dropped("unusable language", f"codes must have no spaces or brackets; got {item.lang!r:.60}")
    text = normalise(item.text, profile)
    if not text:
        left = (
            f"nothing is left of {item.text!r:.60} by profile {profile!r}" if item.text.strip() else "there is no text"
        )
        return dropped("empty transcript", left)
    length = lengths[item.audio]
    if isinstance(length, AudioError):
        return dropped("unreadable audio" if os.path.exists(item.audio) else "missing audio", str(length))
    duration = length - item.offset if item.duration is None else min(item.duration, length - item.offset)
    if duration <= 0 or (item.duration is not None and item.duration > duration + item.overshoot):
        stretch = f"{item.offset:g} s" + (f" + {item.duration:g} s" if item.duration is not None else " on")
        return dropped("outside its audio", f"{stretch} is asked for, {item.audio} has {length:g} s")
    if duration > max_duration.get(item.split, float("inf")):
        return dropped(TOO_LONG, f"{duration:.2f} s, the limit is {max_duration[item.split]:g} s")
    if item.id is not None:
        seen.add((item.split, item.id))
    return Utterance(
        item.audio, duration, text, item.lang, id=item.id, offset=item.offset, corpus=item.corpus, speaker=item.speaker
    )


def _nothing_left(dropped: Sequence[Dropped]) -> str:
    if not dropped:
        return "no utterances for training were found."
    first = dropped[0]
    return (
        f"no utterances for training are left; {len(dropped)} were dropped, the first at {first.where}: "
        f"{first.reason}: {first.detail:.500}"
    )
