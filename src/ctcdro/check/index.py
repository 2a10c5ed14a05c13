"""An index of all lines of a dataset, used to check single lines.

Utterances are not kept in memory: each pass reads the manifests again, and keys are digests of 16 bytes.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ..prepare.entries import SPLITS
from ..prepare.statistics import LanguageSizes, Pace
from ..speech.language_shares import largest_share, script_of
from ..speech.manifest import group_shares
from ..speech.utterance import Utterance
from ..speech.vocabulary import can_be_character, can_be_language
from ..storage.json_files import scan_json_lines
from .findings import Findings


class LocatedUtterance(NamedTuple):
    """An utterance, its split, and its manifest line."""

    utterance: Utterance
    split: str
    where: str


class SplitManifest:
    """The manifest of a split, which may not exist."""

    def __init__(self, folder: Path, split: str) -> None:
        self.split = split
        self.path = folder / f"{split}.jsonl"
        self.exists = self.path.is_file()
        self._version = self._current_version()

    def _current_version(self) -> tuple[int, int, int] | None:
        if not self.path.is_file():
            return None
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def read(self, findings: Findings | None = None) -> Iterator[LocatedUtterance]:
        """Reads the utterances. Invalid lines are skipped and added to `findings`."""
        if self._current_version() != self._version:
            raise ValueError(f"{self.path}: changed during the check. Wait until it is complete, and try again.")
        folder = str(self.path.parent)
        for line, record in scan_json_lines(self.path) if self.exists else ():
            where = f"{self.path}:{line}"
            try:
                if isinstance(record, ValueError):
                    raise record
                utterance = Utterance.from_record(record, folder)
                if wrong := [language for language in utterance.languages if not can_be_language(language)]:
                    raise ValueError(f"`lang` must not contain spaces or brackets, got {wrong[0]!r:.60}")
            except ValueError as error:
                if findings is not None:
                    findings.error("malformed line", where, str(error))
                continue
            yield LocatedUtterance(utterance, self.split, where)


@dataclass(slots=True)
class FirstAndCount:
    """The first of several manifest lines, and their number."""

    first: str = ""
    count: int = 0

    def add(self, where: str) -> None:
        self.first = self.first or where
        self.count += 1


class DatasetIndex:
    """Index of all utterances of a dataset, grouped by the fields `by`. Training data must be added first."""

    def __init__(self, by: Sequence[str]) -> None:
        self.sizes = {split: LanguageSizes() for split in SPLITS}
        self.languages: dict[str, dict[str, FirstAndCount]] = defaultdict(lambda: defaultdict(FirstAndCount))
        """Lines of each language and split."""
        self.group_durations: dict[str, array[float]] = defaultdict(lambda: array("d"))
        """Seconds of the training utterances of each group, times their shares."""
        self.groups_with_batches: set[str] = set()
        """Groups that have the largest share in a training utterance."""
        self.group_lines: dict[str, str] = {}
        """The first training line of each group."""
        self.without_group: dict[str, FirstAndCount] = defaultdict(FirstAndCount)
        """Lines without a group, by reason."""
        self.characters: set[str] = set()
        """Characters of the training texts that can be labels."""
        self.scripts: dict[str, dict[str, FirstAndCount]] = defaultdict(lambda: defaultdict(FirstAndCount))
        """Training lines of each language with letters of each script."""
        self.held_out: set[bytes] = set()
        """Keys of the texts and audio of dev and test."""
        self.ids: Counter[bytes] = Counter()
        self.files: Counter[bytes] = Counter()
        self._by = list(by)

    def add(self, located: LocatedUtterance) -> None:
        utterance, split, where = located
        self.sizes[split].add(utterance)
        for language in utterance.languages:
            self.languages[language][split].add(where)
        self._add_group(located)
        if split == "train":
            self.characters.update(filter(can_be_character, set(utterance.text) - self.characters))
            if utterance.lang_shares is None:
                for script in sorted({script_of(character) or "" for character in set(utterance.text)} - {""}):
                    self.scripts[utterance.lang][script].add(where)
        else:
            self.held_out |= {text_key(utterance), audio_key(utterance)}
        self.files[file_key(utterance)] += 1
        if utterance.id is not None:
            self.ids[id_key(utterance)] += 1

    def _add_group(self, located: LocatedUtterance) -> None:
        utterance, split, where = located
        try:
            shares = group_shares(utterance, self._by)
        except ValueError as error:
            self.without_group[f"{split}: {error}"].add(where)
            return
        if split == "train":
            self.groups_with_batches.add(largest_share(shares))
        for name, share in shares.items():
            if split == "train":
                self.group_durations[name].append(share * utterance.duration)
                self.group_lines.setdefault(name, where)
            elif name not in self.group_lines and self._by != ["lang"]:  # missing languages are a separate finding
                self.without_group[f"{split}: group {name!r} is not in train"].add(where)

    @cached_property
    def paces(self) -> dict[str, Pace | None]:
        """The pace of each language, None if it has too few utterances."""
        paces = {}
        for language in self.languages:
            seconds, num_characters = array("d"), array("q")
            for sizes in self.sizes.values():
                seconds.extend(sizes.durations.get(language, ()))
                num_characters.extend(sizes.num_characters.get(language, ()))
            paces[language] = Pace.fit(num_characters, seconds)
        return paces

    def has_own_file(self, utterance: Utterance) -> bool:
        """Whether the file contains no other utterance, so that it should be as long as the utterance."""
        return utterance.offset == 0 and self.files[file_key(utterance)] == 1


def _digest(key: str) -> bytes:
    return blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()


def text_key(utterance: Utterance) -> bytes:
    return _digest(f"text {utterance.lang} {utterance.text}")  # languages have no spaces


def audio_key(utterance: Utterance) -> bytes:
    # Adding zero turns -0.0 into 0.0.
    return _digest(f"audio {utterance.offset + 0.0!r} {os.path.normpath(utterance.audio_filepath)}")


def file_key(utterance: Utterance) -> bytes:
    return _digest(f"file {os.path.normpath(utterance.audio_filepath)}")


def id_key(utterance: Utterance) -> bytes:
    return _digest(f"id {utterance.id}")
