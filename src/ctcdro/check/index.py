"""What has to be known of all lines of a dataset before one of them can be judged, in some 50 bytes a line.

Lines are read one at a time, as often as they are needed. Of each line its duration is kept, and digests of what should
not come twice.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..prepare.duplicates import Digest, Repeated, Repetitions, digest
from ..prepare.prepare import SPLITS
from ..prepare.statistics import LanguageTotals, Pace, PaceSample
from ..speech.manifest import group_name
from ..speech.utterance import Utterance
from ..speech.vocabulary import can_be_language
from ..storage.json_files import scan_json_lines
from .findings import Finding, Findings


class Placed(NamedTuple):
    """An utterance and where it stands."""

    path: Path
    line: int
    utterance: Utterance

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


class Part:
    """The manifest of a split, read as often as it is needed; or that there is none."""

    def __init__(self, folder: Path, split: str) -> None:
        self.split = split
        self.number = SPLITS.index(split)
        self.path = folder / f"{split}.jsonl"
        self._stamp = self._stamp_now()

    @property
    def is_there(self) -> bool:
        return self._stamp is not None

    def _stamp_now(self) -> tuple[int, int, int] | None:
        if not self.path.is_file():
            return None
        found = self.path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def placed(self, malformed: Findings | None = None) -> Iterator[Placed]:
        """The utterances; lines that hold none are findings.

        Raises:
            ValueError: if the manifest is another one than before, so that nothing fits any more.
        """
        if self._stamp_now() != self._stamp:
            raise ValueError(f"{self.path}: changed while it was being read. Wait until it is written, and try again.")
        folder = str(self.path.parent)
        for line, record in scan_json_lines(self.path) if self.is_there else ():
            try:
                if isinstance(record, ValueError):
                    raise record
                utterance = Utterance.from_record(record, folder)
                if not can_be_language(utterance.lang):
                    raise ValueError(f"`lang` must have no spaces or brackets, got {utterance.lang!r:.60}")
            except ValueError as error:
                if malformed is not None:
                    malformed.add(Finding("malformed line", "error", f"{self.path}:{line}", str(error)))
                continue
            yield Placed(self.path, line, utterance)


@dataclass(slots=True)
class Places:
    """The first of several places, and how many there are."""

    first: str = ""
    number: int = 0

    def add(self, one: Placed) -> None:
        self.first = self.first or one.where
        self.number += 1


class Known:
    """What is known of all lines: `add` takes in each, `settle` ends that.

    Args:
        by: the fields that tell groups apart.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self.totals = {split: LanguageTotals() for split in SPLITS}
        self.num_utterances = 0
        self.groups: dict[str, array[float]] = defaultdict(lambda: array("d"))
        """Seconds of the training utterances."""
        self.without_group: dict[str, Places] = defaultdict(Places)
        """Why they have none."""
        self.group_places: dict[str, Places] = defaultdict(Places)
        """Where the training utterances of each group are."""
        self.places: dict[str, dict[str, Places]] = defaultdict(lambda: defaultdict(Places))
        """Where the utterances of each language and split are."""
        self.paces: dict[str, Pace] = {}
        """The pace of each language with enough utterances; filled by `settle`."""
        self._samples: dict[str, PaceSample] = defaultdict(PaceSample)
        self.languages: set[str] = set()
        self.trained_languages: set[str] = set()
        self.trained_characters: set[str] = set()
        self.texts = Repetitions(len(SPLITS))
        self.stretches = Repetitions(len(SPLITS))
        self.ids = Repetitions()
        self._files = Repeated()
        self._by = list(by)

    def add(self, part: Part, one: Placed) -> None:
        """Takes in a line; training data come first."""
        utterance = one.utterance
        self.totals[part.split].add(utterance)
        self.num_utterances += 1
        self.languages.add(utterance.lang)
        self.places[utterance.lang][part.split].add(one)
        self._samples[utterance.lang].add(utterance)
        if part.split == "train":
            self.trained_languages.add(utterance.lang)
            self.trained_characters.update(utterance.text)
        self._add_group(part.split, one)
        self.texts.note(text_key(utterance), part.number)
        self.stretches.note(stretch_key(utterance), part.number)
        self._files.note(_file_key(utterance))
        if utterance.id is not None:
            self.ids.note(digest(utterance.id))

    def _add_group(self, split: str, one: Placed) -> None:
        try:
            name = group_name(one.utterance, self._by)
        except ValueError as error:
            self.without_group[f"{split}: {error}"].add(one)
            return
        if split == "train":
            self.groups[name].append(one.utterance.duration)
            self.group_places[name].add(one)
        elif name not in self.groups and self._by != ["lang"]:  # of languages it is said elsewhere
            self.without_group[f"{split}: group {name!r} is not in train"].add(one)

    def settle(self) -> None:
        """Ends the taking in."""
        for keys in (self.texts, self.stretches, self.ids, self._files):
            keys.settle()
        for language, sample in self._samples.items():
            if pace := sample.pace():
                self.paces[language] = pace
        self._samples.clear()

    def is_whole(self, utterance: Utterance) -> bool:
        """Whether no other utterance is in its file, which then should be as long as the utterance."""
        return utterance.offset == 0 and _file_key(utterance) not in self._files


def text_key(utterance: Utterance) -> Digest:
    """Of the text in its language."""
    return digest(f"{utterance.lang} {utterance.text}")  # languages have no spaces


def stretch_key(utterance: Utterance) -> Digest:
    """Of the file and where in it the utterance begins."""
    # Zero may have a sign, which says nothing here; adding zero takes it off.
    return digest(f"{utterance.offset + 0.0!r} {os.path.normpath(utterance.audio_filepath)}")


def _file_key(utterance: Utterance) -> Digest:
    return digest(os.path.normpath(utterance.audio_filepath))
