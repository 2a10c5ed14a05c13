"""`prepare` writes the entries of a corpus to a dataset folder, in the same way for all readers.

A reader yields a `CorpusEntry` per utterance, and `Dropped` for a line that it cannot read. `prepare` reads audio
headers without decoding, normalizes texts, applies a duration limit, and writes the folder described in
`dataset_folder.py`. Utterances keep the order of the corpus and are written as they are read, so a corpus may have any
size: only the ids and two numbers per utterance stay in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..runtime.progress import Track, untracked
from ..runtime.threads import map_in_threads
from ..speech.audio import AudioError, UnreachableError, header
from ..speech.manifest import Manifest
from ..speech.normalization import normalize
from ..speech.utterance import Utterance
from ..speech.vocabulary import can_be_language
from ..storage.locks import lock_folder
from ..storage.paths import PathLike
from ..storage.remote import is_url
from .dataset_folder import DatasetWriter, refuse_other_dataset, replace_dataset
from .entries import EXPECTED_REASONS, TOO_LONG, CorpusEntry, Dropped
from .statistics import Statistics

# Lengths of files to keep in memory, for files with several utterances: about 20 MB.
MAX_LENGTHS_KEPT = 2**16

Length = float | AudioError
"""Seconds of a file, or the error if it cannot be read."""


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset that was written, and the entries that were dropped."""

    folder: Path
    statistics: Mapping[str, Mapping[str, Statistics]]
    """By split and language, without empty splits."""
    num_dropped: Mapping[str, int]
    """By reason."""
    dropped: list[Dropped]
    """The first that were dropped."""

    @property
    def manifests(self) -> dict[str, Manifest]:
        return {split: Manifest.read(self.folder / f"{split}.jsonl") for split in self.statistics}


def prepare(
    entries: Iterable[CorpusEntry | Dropped],
    out: PathLike,
    about: Mapping[str, Any],
    text_norm: str = "clean",
    max_duration: Mapping[str, float] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    num_threads: int = 16,
    track: Track = untracked,
) -> PreparedDataset:
    """Converts a corpus to a dataset.

    Args:
        out: dataset folder. An existing dataset must have been built with the same `about`, unless `overwrite` is true.
        about: reader and options, which are written to `dataset.json`.
        text_norm: text normalization: `clean`, `paper` or `none`, see `ctcdro.speech.normalization`.
        max_duration: maximum duration in seconds, by split; longer utterances are dropped. Other splits have no limit.
        strict: whether to stop at the first problem instead of dropping the entry. Exceeding `max_duration` is not a
            problem.
        overwrite: whether to replace a dataset that was built with other options.
        num_threads: threads that read headers; more threads than cores help with slow disks and networks.

    Raises:
        ValueError: if there is no training data, if another process is writing to `out`, or, with `strict`, at the
            first problem.
    """
    about = {**about, "text_norm": text_norm}
    length_of = lru_cache(MAX_LENGTHS_KEPT)(_read_length)
    seen: set[str] = set()

    def measure(entry: CorpusEntry | Dropped) -> tuple[CorpusEntry | Dropped, Length]:
        return entry, length_of(entry.audio) if isinstance(entry, CorpusEntry) else 0.0

    with lock_folder(out) as folder:
        refuse_other_dataset(folder, about, overwrite)
        with replace_dataset(folder, about) as writer:
            for entry, length in track(map_in_threads(measure, entries, num_threads), "reading audio headers"):
                result = _accept_or_drop(entry, length, text_norm, max_duration or {}, seen)
                if isinstance(result, Utterance):
                    writer.add(entry.split, result)
                elif strict and result.reason not in EXPECTED_REASONS:
                    raise ValueError(f"{result.where}: {result.reason}: {result.detail}")
                else:
                    writer.drop(result)
            if not writer.sizes["train"]:
                raise ValueError(f"{out}: nothing was written, because there is no training data. {_why_empty(writer)}")
    statistics = {split: sizes.statistics() for split, sizes in writer.sizes.items() if sizes}
    return PreparedDataset(Path(out), statistics, writer.num_dropped, writer.dropped)


def _read_length(path: str) -> Length:
    try:
        return header(path).duration
    except UnreachableError:
        raise
    except AudioError as error:
        return AudioError(str(error))  # a new one, because the raised one keeps its stack frames alive


def _accept_or_drop(
    entry: CorpusEntry | Dropped, length: Length, text_norm: str, max_duration: Mapping[str, float], seen: set[str]
) -> Utterance | Dropped:
    if isinstance(entry, Dropped):
        return entry

    def drop(reason: str, detail: str) -> Dropped:
        return Dropped(entry.split, entry.lang, entry.where, reason, detail, entry.id)

    if entry.id is not None and entry.id.split() != [entry.id]:
        return drop("unusable id", f"ids must not contain whitespace; got {entry.id!r:.60}")
    key = None if entry.id is None else f"{entry.split} {entry.id}"
    if key in seen:
        return drop("duplicate id", f"{entry.id:.60} occurs twice in {entry.split}")
    for lang in entry.lang_shares or [entry.lang]:
        if not can_be_language(lang):
            return drop("unusable language", f"codes must not contain spaces or brackets; got {lang!r:.60}")
    text = normalize(entry.text, text_norm)
    if not text:
        is_blank = not entry.text.strip()
        detail = "no text" if is_blank else f"--text-norm {text_norm} removes all of {entry.text!r:.60}"
        return drop("empty transcript", detail)
    if isinstance(length, AudioError):
        is_there = is_url(entry.audio) or os.path.exists(entry.audio)
        return drop("unreadable audio" if is_there else "missing audio", str(length))
    duration = length - entry.offset if entry.duration is None else min(entry.duration, length - entry.offset)
    if duration <= 0 or (entry.duration is not None and entry.duration > duration + entry.overshoot):
        end = "" if entry.duration is None else f" to {entry.offset + entry.duration:g} s"
        return drop("outside its audio", f"from {entry.offset:g} s{end}, but {entry.audio} is {length:g} s long")
    if duration > max_duration.get(entry.split, float("inf")):
        return drop(TOO_LONG, f"{duration:.2f} s, the limit is {max_duration[entry.split]:g} s")
    if key is not None:
        seen.add(key)
    utterance = Utterance(entry.audio, duration, text, entry.lang, entry.id, entry.offset, entry.corpus, entry.speaker)
    return utterance if entry.lang_shares is None else utterance.with_languages(entry.lang_shares)


def _why_empty(writer: DatasetWriter) -> str:
    if not writer.dropped:
        return "The reader found no utterances."
    first = writer.dropped[0]
    problem = f"{first.where}: {first.reason}: {first.detail:.500}"
    return f"{writer.num_dropped.total()} entries were dropped, the first at {problem}"
