"""What all readers share: utterances as a corpus lists them -> a dataset folder.

A reader yields a `CorpusEntry` per utterance, and `Dropped` for a line of the corpus that cannot be read. `prepare`
reads the headers of the audio, without decoding it, applies a text profile and a limit of duration, and writes

    train.jsonl, dev.jsonl, test.jsonl   the manifests
    dropped.jsonl                        what was left out, from which line of the corpus, and why
    dataset.json                         reader and options

Each file is written whole, and none takes its name before all is read: what was there before is replaced at the end, or
stays. A second process that prepares the same folder at the same time is rejected. Utterances keep the order of the
corpus, and are written as they are read: only a digest of each id stays in memory, so a corpus may have any size.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ..runtime.progress import Track, untracked
from ..runtime.threads import map_in_threads
from ..speech.audio import TOLERANCE, AudioError, header
from ..speech.manifest import Manifest, manifest_line
from ..speech.normalization import normalize
from ..speech.utterance import Utterance
from ..speech.vocabulary import can_be_language
from ..storage.atomic import atomic_write_many, remove_leftovers
from ..storage.json_files import read_json
from ..storage.locks import lock_folder
from ..storage.paths import PathLike
from .duplicates import Seen, digest
from .statistics import LanguageTotals, Statistics

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class CorpusEntry:
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


# Of what was left out, kept to be looked at; all of it is in dropped.jsonl.
MOST_DROPPED_KEPT = 1000

# Files of which the length is kept, since other utterances may be in them: some 20 MB.
MOST_LENGTHS_KEPT = 2**16


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset that was written, and what was left out of it."""

    folder: Path
    statistics: Mapping[str, Mapping[str, Statistics]]
    """By split and language; splits without utterances are not in it."""
    num_dropped: Mapping[str, int]
    """How many were left out, by reason."""
    dropped: list[Dropped]
    """The first that were left out, `MOST_DROPPED_KEPT` at most."""

    @property
    def manifests(self) -> dict[str, Manifest]:
        """The manifests by split, read from the folder, in which relative paths of audio begin."""
        return {split: Manifest.read(self.folder / f"{split}.jsonl") for split in self.statistics}


def prepare(
    listed: Iterable[CorpusEntry | Dropped],
    out: PathLike,
    about: Mapping[str, Any],
    profile: str = "clean",
    max_duration: Mapping[str, float] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    num_threads: int = 16,
    track: Track = untracked,
) -> PreparedDataset:
    """Writes the dataset of what a reader found.

    Args:
        listed: what the reader yields.
        out: the folder to write; it may hold a dataset made with the same `about`, or with `overwrite` any.
        about: reader and options, as `dataset.json` is to tell.
        profile: of `ctcdro.speech.vocabulary`.
        max_duration: seconds, by split; what is longer is left out. Splits that are not named have no limit.
        strict: stop at the first fault, instead of leaving the utterance out and reporting it. What is too long is
            no fault.
        num_threads: that read headers at a time; more than there are cores help with slow disks and networks.

    Raises:
        ValueError: if an utterance's id has white space, or nothing remains for training; with `strict` at a fault;
            if another process is writing to `out`.
    """
    about = {**about, "profile": profile}
    length_of = lru_cache(MOST_LENGTHS_KEPT)(_length)
    seen = Seen()
    with lock_folder(out) as folder:
        refuse_other_dataset(folder, about, overwrite)
        with _written(folder, about) as dataset:
            measured = map_in_threads(lambda item: (item, _length_for(item, length_of)), listed, num_threads)
            for item, length in track(measured, "reading audio headers"):
                kept = _judged(item, length, profile, max_duration or {}, seen)
                if isinstance(kept, Utterance):
                    dataset.add(item.split, kept)
                elif strict and kept.reason not in NO_FAULTS:
                    raise ValueError(f"{kept.where}: {kept.reason}: {kept.detail}")
                else:
                    dataset.leave_out(kept)
            if not dataset.totals["train"]:
                raise ValueError(f"{out}: not written, since {_nothing_left(dataset)}")
    statistics = {split: totals.statistics() for split, totals in dataset.totals.items() if totals}
    return PreparedDataset(Path(out), statistics, dataset.num_dropped, dataset.dropped)


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


def write_dataset(out: PathLike, about: Mapping[str, Any], manifests: Mapping[str, Manifest]) -> None:
    """Writes a dataset and replaces an existing one; the caller must hold the folder's lock."""
    with _written(Path(out), about) as dataset:
        for split, manifest in manifests.items():
            for utterance in manifest:
                dataset.add(split, utterance)


class _Dataset:
    """The files of a dataset that is being written, and what is in them so far."""

    def __init__(self, folder: Path, dropped: IO[str], manifests: Mapping[str, IO[str]]) -> None:
        self.totals = {split: LanguageTotals() for split in SPLITS}
        self.num_dropped: Counter[str] = Counter()
        self.dropped: list[Dropped] = []
        self._folder = folder.absolute()
        self._dropped_file = dropped
        self._manifest_files = manifests

    def add(self, split: str, utterance: Utterance) -> None:
        self._manifest_files[split].write(manifest_line(utterance, self._folder))
        self.totals[split].add(utterance)

    def leave_out(self, item: Dropped) -> None:
        self._dropped_file.write(json.dumps(asdict(item), ensure_ascii=False) + "\n")
        self.num_dropped[item.reason] += 1
        if len(self.dropped) < MOST_DROPPED_KEPT:
            self.dropped.append(item)


@contextmanager
def _written(folder: Path, about: Mapping[str, Any]) -> Iterator[_Dataset]:
    """A dataset to write to, which takes the place of one that is there at the end; on an error nothing is changed."""
    paths = [folder / "dataset.json", folder / "dropped.jsonl", *_manifests(folder)]
    remove_leftovers(folder)
    with atomic_write_many(paths) as (note, dropped, *manifests):
        json.dump(about, note, ensure_ascii=False, indent=2, sort_keys=True)
        note.write("\n")
        dataset = _Dataset(folder, dropped, dict(zip(SPLITS, manifests, strict=True)))
        yield dataset
        empty = [number for number, split in enumerate(SPLITS) if not dataset.totals[split]]
        for number in empty:
            manifests[number].close()
    for number in empty:
        _manifests(folder)[number].unlink(missing_ok=True)


def _manifests(folder: Path) -> list[Path]:
    return [folder / f"{split}.jsonl" for split in SPLITS]


Length = float | AudioError


def _length_for(item: CorpusEntry | Dropped, length_of: Callable[[str], Length]) -> Length:
    return length_of(item.audio) if isinstance(item, CorpusEntry) else 0.0


def _length(path: str) -> Length:
    """Seconds of a file, by its header; what is wrong with it where it cannot be read."""
    try:
        return header(path).duration
    except AudioError as error:
        return AudioError(str(error))  # a new one: that which was raised keeps all that was at work


def _judged(
    item: CorpusEntry | Dropped, length: Length, profile: str, max_duration: Mapping[str, float], seen: Seen
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
        if (own := digest(f"{item.split} {item.id}")) in seen:
            return dropped("same id again", f"{item.id:.60} comes twice in {item.split}")
    if not can_be_language(item.lang):
        return dropped("unusable language", f"codes must have no spaces or brackets; got {item.lang!r:.60}")
    text = normalize(item.text, profile)
    if not text:
        left = (
            f"nothing is left of {item.text!r:.60} by profile {profile!r}" if item.text.strip() else "there is no text"
        )
        return dropped("empty transcript", left)
    if isinstance(length, AudioError):
        return dropped("unreadable audio" if os.path.exists(item.audio) else "missing audio", str(length))
    duration = length - item.offset if item.duration is None else min(item.duration, length - item.offset)
    if duration <= 0 or (item.duration is not None and item.duration > duration + item.overshoot):
        stretch = f"{item.offset:g} s" + (f" + {item.duration:g} s" if item.duration is not None else " on")
        return dropped("outside its audio", f"{stretch} is asked for, {item.audio} has {length:g} s")
    if duration > max_duration.get(item.split, float("inf")):
        return dropped(TOO_LONG, f"{duration:.2f} s, the limit is {max_duration[item.split]:g} s")
    if item.id is not None:
        seen.add(own)
    return Utterance(
        item.audio, duration, text, item.lang, id=item.id, offset=item.offset, corpus=item.corpus, speaker=item.speaker
    )


def _nothing_left(dataset: _Dataset) -> str:
    if not dataset.dropped:
        return "no utterances for training were found."
    first = dataset.dropped[0]
    return (
        f"no utterances for training are left; {dataset.num_dropped.total()} were dropped, the first at {first.where}: "
        f"{first.reason}: {first.detail:.500}"
    )
