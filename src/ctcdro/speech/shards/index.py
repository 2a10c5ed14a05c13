"""`ShardIndex`: any utterance of a folder of shards, in memory that does not grow with their number.

The index is the folder `train-index/<fields of groups>` of a dataset, which `build` writes when a run first needs it:

    index.json      groups, languages with their characters and statistics, digest
    shards.jsonl    files of each shard, with the sizes and times by which changes are noticed
    records.bin     one record of fixed size per utterance, ordered by group, then as in the shards
    texts.bin       ids and texts
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...storage.json_files import read_json, read_json_lines
from ..manifest import Groups, Manifest
from ..utterance import Utterance
from ..vocabulary import Vocabulary
from .layout import Shard

FORMAT = 1  # to be raised when the files change
RECORD = np.dtype(
    [
        ("duration", "<f8"),
        ("audio_start", "<i8"),
        ("text_start", "<i8"),
        ("audio_size", "<i8"),
        ("id_size", "<i4"),
        ("text_size", "<i4"),
        ("shard", "<i4"),
        ("line", "<i4"),
        ("language", "<i4"),
    ]
)
RECORDS_PER_READ = 2**16


@dataclass(frozen=True)
class IndexedLanguage:
    """Sums over the utterances of a language."""

    characters: str
    num_utterances: int
    seconds: float
    seconds_squared: float
    num_characters: int
    num_characters_squared: int
    longest: float


class AudioLocation(NamedTuple):
    path: str
    """Path or URL of a tar file."""
    start: int
    size: int


class ShardIndex:
    """The utterances of a folder of shards, by number. Numbers are ordered by group.

    Args:
        folder: written by `build.write_index`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._content: dict[str, Any] = read_json(folder / "index.json")
        shards = [line for _, line in read_json_lines(folder / "shards.jsonl")]
        # Reading at a position does not depend on a process, so workers may share these files.
        self._records, self._texts = (os.open(folder / name, os.O_RDONLY) for name in ("records.bin", "texts.bin"))
        for descriptor in (self._records, self._texts):
            weakref.finalize(self, os.close, descriptor)
        content = self._content
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{folder}: written by another version. Delete it; it will be built again.")
        sizes = [os.fstat(descriptor).st_size for descriptor in (self._records, self._texts)]
        try:
            is_whole = sizes == [RECORD.itemsize * len(self), content["text_size"]]
            self.shards = [Shard(line["audio"], line["cuts"]) for line in shards]
            self.languages = {name: IndexedLanguage(**values) for name, values in content["languages"].items()}
            self.digest = str(content["digest"])
            """Of all utterances, and of the positions of their audio."""
        except (AttributeError, KeyError, TypeError):
            is_whole = False
        if not is_whole:  # such as by a full disk or a power failure
            raise ValueError(f"{folder}: damaged. Delete it; it will be built again.")
        self._language_names = list(self.languages)

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardIndex, (self.folder,)

    def __len__(self) -> int:
        return sum(self.group_sizes)

    def __iter__(self) -> Iterator[Utterance]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Utterance:
        record = self._record(number)
        id_size, text_size = int(record["id_size"]), int(record["text_size"])
        content = os.pread(self._texts, id_size + text_size, int(record["text_start"]))
        return Utterance(
            audio_filepath=self.shards[record["shard"]].audio,
            duration=float(record["duration"]),
            text=content[id_size:].decode(),
            lang=self._language_names[record["language"]],
            id=content[:id_size].decode() or None,
        )

    @property
    def group_names(self) -> list[str]:
        return list(self._content["groups"])

    @cached_property
    def group_sizes(self) -> list[int]:
        """(G,) utterances of each group."""
        return list(self._content["groups"].values())

    @property
    def groups(self) -> Groups:
        """The names of the groups. The numbers of the utterances follow from `group_sizes`, so there are none."""
        return Groups(self.group_names, np.empty(0, dtype=np.int64))

    @property
    def longest_duration(self) -> float:
        return max(totals.longest for totals in self.languages.values())

    def vocabulary(self) -> Vocabulary:
        """The labels of all texts."""
        characters = {name: totals.characters for name, totals in self.languages.items()}
        return Vocabulary(characters, "".join(characters.values()), characters)

    def group_of(self, number: int) -> int:
        return int(np.searchsorted(self._ends, number, side="right"))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.group_sizes)

    def durations_between(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """(stop - start,) seconds of consecutive utterances."""
        return self._read(start, stop)["duration"].copy()

    def durations_of(self, numbers: Tensor) -> Tensor:
        """(B,) seconds of some utterances."""
        return torch.tensor([float(self._record(number)["duration"]) for number in numbers.tolist()])

    def location(self, number: int) -> AudioLocation:
        """Where the audio of an utterance is."""
        record = self._record(number)
        shard = self.shards[record["shard"]]
        return AudioLocation(shard.audio, int(record["audio_start"]), int(record["audio_size"]))

    def where(self, number: int) -> str:
        """File and line of an utterance, for messages."""
        record = self._record(number)
        return f"{self.shards[record['shard']].listing}:{record['line']}"

    def languages_of_groups(self) -> list[str]:
        """The language of each group; empty if a group has several."""
        found: list[str] = []
        for start, stop in zip([0, *self._ends[:-1].tolist()], self._ends.tolist(), strict=True):
            numbers = {int(number) for part in self._parts(start, stop) for number in np.unique(part["language"])}
            if len(numbers) > 1:
                return []
            found.append(self._language_names[numbers.pop()])
        return found

    def find(self, places: Mapping[str, Sequence[int]]) -> list[int]:
        """Numbers of utterances by their places among those of a language, such as {"ces": [0, 7]}; sorted."""
        wanted = {self._language_names.index(name): np.array(own) for name, own in places.items()}
        seen = dict.fromkeys(wanted, 0)
        found: list[int] = []
        start = 0
        for part in self._parts(0, len(self)):
            for language, own in wanted.items():
                numbers = np.flatnonzero(part["language"] == language)
                inside = own[(own >= seen[language]) & (own < seen[language] + len(numbers))] - seen[language]
                found += (start + numbers[inside]).tolist()
                seen[language] += len(numbers)
            start += len(part)
        return sorted(found)

    def select(self, numbers: Sequence[int]) -> Manifest:
        """Some utterances, as a manifest whose messages name the shards."""
        return ShardSample([self[number] for number in numbers], [self.where(number) for number in numbers])

    def _record(self, number: int) -> npt.NDArray:
        return self._read(number, number + 1)[0]

    def _parts(self, start: int, stop: int) -> Iterator[npt.NDArray]:
        return (self._read(one, min(stop, one + RECORDS_PER_READ)) for one in range(start, stop, RECORDS_PER_READ))

    def _read(self, start: int, stop: int) -> npt.NDArray:
        content = os.pread(self._records, (stop - start) * RECORD.itemsize, start * RECORD.itemsize)
        return np.frombuffer(content, dtype=RECORD)


class ShardSample(Manifest):
    """Utterances of shards. Their audio is read by `ShardDataset`, not from their paths."""

    def __init__(self, utterances: Sequence[Utterance], places: Sequence[str]) -> None:
        super().__init__(utterances)
        self._places = places

    def where(self, index: int) -> str:
        return self._places[index]
