"""Builds the index of a folder of shards, in one pass over the cuts and the headers of the tar files.

Audio is not decoded; from object stores, it is downloaded once. The pass needs memory per group, not per utterance. It
checks every shard, so a missing or truncated one stops a run before it starts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import numpy as np

from ...runtime.progress import Track, untracked
from ...storage.atomic import atomic_folder
from ...storage.json_files import json_line, read_json_lines, write_json
from ...storage.locks import lock_folder
from ...storage.remote import is_url
from ..manifest import group_shares
from ..vocabulary import can_be_character, can_be_language
from .entries import ShardEntry, read_entries
from .index import FORMAT, RECORD, IndexedLanguage, ShardIndex
from .layout import Shard, find_shards

INDEX = "train-index"  # next to the folder of the shards, in which lhotse would take it for one

BYTES_PER_WRITE = 2**16
_DIGESTED_BYTES = 2**20


def open_index(dataset: Path, by: Sequence[str] = ("lang",), track: Track = untracked) -> ShardIndex:
    """Opens the index of the shards of a dataset; builds it first if it is missing or the shards have changed.

    Other processes wait until it is built.

    Args:
        by: fields that define the groups.
    """
    shards = find_shards(dataset)
    index = dataset / INDEX / quote(",".join(by), safe=",")  # fields may contain hyphens and slashes
    states = [_state(shard) for shard in shards]
    found = _open_current(index, states)
    if found is None:
        with lock_folder(dataset / INDEX, wait=True):
            if _open_current(index, states) is None:  # no other process has built it
                with atomic_folder(index) as unfinished:
                    write_index(unfinished, shards, states, by, track)
        found = ShardIndex(index)
    return found


def _state(shard: Shard) -> dict[str, object]:
    """The files of a shard, with what changes when they do. Object stores are not asked."""
    paths = [path for path in shard if path is not None and not is_url(path)]
    stats = [os.stat(path) for path in paths]
    return {**shard._asdict(), "files": [[one.st_size, one.st_mtime_ns] for one in stats]}


def _open_current(index: Path, states: Sequence[dict[str, object]]) -> ShardIndex | None:
    """The index if it is that of these shards and intact."""
    try:
        if [state for _, state in read_json_lines(index / "shards.jsonl")] == list(states):
            return ShardIndex(index)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass
    return None


def write_index(
    folder: Path,
    shards: Sequence[Shard],
    states: Sequence[dict[str, object]],
    by: Sequence[str] = ("lang",),
    track: Track = untracked,
) -> None:
    """Writes the files of an index into a folder."""
    groups: dict[str, GroupFiles] = {}
    languages: defaultdict[str, LanguageSums] = defaultdict(LanguageSums)
    numbers: dict[str, int] = {}
    for number, shard in enumerate(track(shards, "indexing shards", len(shards))):
        for entry in read_entries(shard):
            group = _group_of(entry, shard, by)
            if group not in groups:
                groups[group] = GroupFiles(folder / f"group-{len(groups)}")
            language = numbers.setdefault(entry.utterance.lang, len(numbers))
            languages[entry.utterance.lang].add(entry, shard)
            groups[group].add(entry, number, language)
    if not groups:
        raise ValueError(f"{shards[0].listing}: no utterances in this shard and {len(shards) - 1:,} others.")
    ordered = {name: groups[name] for name in sorted(groups)}
    digest = _join(folder, list(ordered.values()), list(languages))
    with open(folder / "shards.jsonl", "w", encoding="utf-8") as file:
        file.writelines(map(json_line, states))
    content = {
        "format": FORMAT,
        "groups": {name: files.num_utterances for name, files in ordered.items()},
        "languages": {name: asdict(sums.totals()) for name, sums in languages.items()},
        "text_size": sum(files.text_size for files in ordered.values()),
        "digest": digest,
    }
    write_json(folder / "index.json", content)


def _group_of(entry: ShardEntry, shard: Shard, by: Sequence[str]) -> str:
    where = f"{shard.listing}:{entry.line}"
    try:
        shares = group_shares(entry.utterance, by)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if len(shares) > 1:
        raise ValueError(f"{where}: an utterance in several groups ({', '.join(shares)}) is not supported in shards.")
    return next(iter(shares))


class LanguageSums:
    """Sums over the utterances of a language so far."""

    def __init__(self) -> None:
        self._characters: set[str] = set()
        self._sums = [0, 0.0, 0.0, 0, 0, 0.0]

    def add(self, entry: ShardEntry, shard: Shard) -> None:
        text, seconds = entry.utterance.text, entry.utterance.duration
        if not can_be_language(entry.utterance.lang):
            raise ValueError(
                f"{shard.listing}:{entry.line}: the language must be a code without spaces or brackets; got "
                f"{entry.utterance.lang!r:.60}."
            )
        if new := set(text) - self._characters:
            if wrong := sorted(one for one in new if not can_be_character(one)):
                raise ValueError(
                    f"{shard.listing}:{entry.line}: the text has {wrong[0]!r}, which cannot be a label. Normalize the "
                    "texts before you write the shards."
                )
            self._characters |= new
        sums, size = self._sums, len(text)
        self._sums = [
            sums[0] + 1,
            sums[1] + seconds,
            sums[2] + seconds**2,
            sums[3] + size,
            sums[4] + size**2,
            max(sums[5], seconds),
        ]

    def totals(self) -> IndexedLanguage:
        return IndexedLanguage("".join(sorted(self._characters - {" "})), *self._sums)  # type: ignore[arg-type]


class GroupFiles:
    """Temporary files with the records and texts of one group. None stays open, because there may be many."""

    def __init__(self, stem: Path) -> None:
        self.records, self.texts = stem.with_suffix(".records"), stem.with_suffix(".texts")
        self.num_utterances = 0
        self.text_size = 0
        self._pending_records: list[tuple[float | int, ...]] = []
        self._pending_texts = bytearray()

    def add(self, entry: ShardEntry, shard: int, language: int) -> None:
        spoken = entry.utterance
        name, text = (spoken.id or "").encode(), spoken.text.encode()
        sizes = entry.size, len(name), len(text)
        start = self.text_size
        self._pending_records.append((spoken.duration, entry.start, start, *sizes, shard, entry.line, language))
        self._pending_texts += name + text
        self.text_size += len(name) + len(text)
        self.num_utterances += 1
        if len(self._pending_texts) + RECORD.itemsize * len(self._pending_records) > BYTES_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        content = np.array(self._pending_records, dtype=RECORD).tobytes()
        for path, pending in ((self.records, content), (self.texts, self._pending_texts)):
            with open(path, "ab") as file:
                file.write(pending)
        self._pending_records, self._pending_texts = [], bytearray()


def _join(folder: Path, groups: Sequence[GroupFiles], languages: Sequence[str]) -> str:
    """Joins the files of all groups, removes them, and returns a digest of the utterances."""
    digest = hashlib.sha256("\n".join(languages).encode())
    with open(folder / "records.bin", "wb") as records, open(folder / "texts.bin", "wb") as texts:
        for group in groups:
            group.flush()
            _append_records(group.records, records, texts.tell(), digest)
            with open(group.texts, "rb") as source:
                shutil.copyfileobj(source, texts)
            group.records.unlink()
            group.texts.unlink()
    with open(folder / "texts.bin", "rb") as texts:
        while content := texts.read(_DIGESTED_BYTES):
            digest.update(content)
    return digest.hexdigest()


def _append_records(path: Path, records: BinaryIO, texts_before: int, digest: hashlib._Hash) -> None:
    with open(path, "rb") as source:
        while content := source.read(RECORD.itemsize * 2**12):
            part = np.frombuffer(content, dtype=RECORD).copy()
            part["text_start"] += texts_before
            records.write(part.tobytes())
            digest.update(part.tobytes())
