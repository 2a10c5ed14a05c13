"""Manifests and groups.

A manifest is a file of JSON lines, one utterance per line, with the field names of NeMo's manifests:

    {"audio_filepath": "clips/a1.flac", "duration": 3.2, "text": "dobrý den", "lang": "ces"}

Required fields are `audio_filepath` (absolute, or relative to the folder of the manifest and below it, see
`storage.paths`; or a URL), `duration` (seconds), `text` and `lang`. Optional fields are `id`, `offset` (seconds into
the file), `corpus` and `speaker`. Other fields are kept. For an utterance in several languages, `lang` has the share of
each, in order of appearance, such as {"cmn": 0.6, "eng": 0.4}. A group's number is its position among the sorted names
of all groups, so it does not depend on the order of the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from ..storage.atomic import atomic_write
from ..storage.field_checks import shorten
from ..storage.json_files import json_line, read_json_lines
from ..storage.paths import PathLike, escapes_folder
from ..storage.remote import is_url
from .language_shares import check_shares, largest_share
from .utterance import Utterance
from .vocabulary import Vocabulary

GROUP_SEPARATOR = "/"


@dataclass(frozen=True)
class Groups:
    names: list[str]
    """Sorted, unless passed by the caller."""
    numbers: npt.NDArray[np.int64]
    """(n,) position of each utterance's group in `names`; of several groups, of the one with the largest share."""
    rows: npt.NDArray[np.float32] | None = None
    """(n, G) shares of groups, if an utterance belongs to several; otherwise None."""

    @property
    def membership(self) -> npt.NDArray[np.int64] | npt.NDArray[np.float32]:
        """`rows` if there are any, otherwise `numbers`: what objectives, samplers and datasets take as groups."""
        return self.numbers if self.rows is None else self.rows


class Manifest(Sequence[Utterance]):
    """Utterances in a fixed order. `path` and `lines` are the file and line numbers they were read from, if any.

    Example:
        >>> manifest = Manifest([
        ...     Utterance("a.wav", duration=2.5, text="ahoj", lang="ces", corpus="cv"),
        ...     Utterance("b.wav", duration=4.0, text="你好", lang="cmn", corpus="fleurs"),
        ... ])
        >>> manifest.durations
        array([2.5, 4. ])
        >>> manifest.groups(by=["lang", "corpus"])
        Groups(names=['ces/cv', 'cmn/fleurs'], numbers=array([0, 1]), rows=None)
    """

    def __init__(self, utterances: Iterable[Utterance]) -> None:
        if isinstance(utterances, str | os.PathLike):
            raise ValueError(f"`utterances` must be utterances; read a file with `Manifest.read({str(utterances)!r})`.")
        self._utterances = list(utterances)
        self.path: Path | None = None
        self.lines: list[int] = []

    @classmethod
    def read(cls, path: PathLike) -> Manifest:
        """Reads a manifest. A ValueError names the file, the line and the invalid field."""
        manifest = cls([])
        manifest.path = Path(path)
        for line, utterance in read_utterances(path):
            manifest._utterances.append(utterance)
            manifest.lines.append(line)
        if not manifest._utterances:
            raise ValueError(f"{path}: no utterances; expected one JSON object per line.")
        return manifest

    def write(self, path: PathLike) -> None:
        """Writes a manifest atomically. Paths of audio below its folder are relative, so the folder can be moved."""
        folder = Path(path).parent.absolute()
        with atomic_write(path) as file:
            file.writelines(manifest_line(utterance, folder) for utterance in self._utterances)

    def select(self, indices: Sequence[int]) -> Manifest:
        """The utterances at these positions, with the file and lines they were read from."""
        selected = Manifest(self._utterances[index] for index in indices)
        selected.path = self.path
        selected.lines = [self.lines[index] for index in indices] if self.lines else []
        return selected

    def __len__(self) -> int:
        return len(self._utterances)

    @overload
    def __getitem__(self, index: int) -> Utterance: ...
    @overload
    def __getitem__(self, index: slice) -> list[Utterance]: ...
    def __getitem__(self, index: int | slice) -> Utterance | list[Utterance]:
        return self._utterances[index]

    @property
    def durations(self) -> npt.NDArray[np.float64]:
        """(n,) seconds of each utterance."""
        return np.array([utterance.duration for utterance in self._utterances])

    @property
    def longest_duration(self) -> float:
        return float(self.durations.max())

    def vocabulary(self) -> Vocabulary:
        """The labels of all texts."""
        return Vocabulary.of((one.text for one in self), (one.languages for one in self))

    def groups(self, by: str | Sequence[str] = "lang", names: Sequence[str] | None = None) -> Groups:
        """The group of each utterance.

        Args:
            by: the field or fields that define the groups, as a list or in the form "lang,corpus".
            names: names of all groups, such as those of the training data for a development set; by default the sorted
                names in this manifest.

        Raises:
            ValueError: if an utterance has no group, or its group is not in `names`. Names the file and line.
        """
        by = [name.strip() for name in (by.split(",") if isinstance(by, str) else by)]
        if not by or not all(by):
            raise ValueError(f'`by` must name at least one field, such as "lang" or "lang,corpus"; got {by}.')
        if names is not None and len(set(names)) != len(names):
            raise ValueError(f"`names` must not contain duplicates; got {', '.join(names)}.")
        groups = [self._group_shares(index, by) for index in range(len(self))]
        names = sorted({name for shares in groups for name in shares}) if names is None else list(names)
        numbers = {name: number for number, name in enumerate(names)}
        for index, shares in enumerate(groups):
            if unknown := [name for name in shares if name not in numbers]:
                raise ValueError(f"{self.where(index)}: group {unknown[0]!r} is not in `names` ({', '.join(names)}).")
        largest = np.array([numbers[largest_share(shares)] for shares in groups], dtype=np.int64)
        if all(len(shares) == 1 for shares in groups):
            return Groups(names, largest)
        rows = np.zeros((len(groups), len(names)), dtype=np.float32)
        for row, shares in zip(rows, groups, strict=True):
            row[[numbers[name] for name in shares]] = np.array(list(shares.values())) / sum(shares.values())
        return Groups(names, largest, rows)

    def _group_shares(self, index: int, by: list[str]) -> dict[str, float]:
        try:
            return group_shares(self._utterances[index], by)
        except ValueError as error:
            raise ValueError(f"{self.where(index)}: {error}") from error

    def where(self, index: int) -> str:
        """File and line of an utterance, for messages."""
        return f"utterance {index}" if self.path is None else f"{self.path}:{self.lines[index]}"


def group_shares(utterance: Utterance, by: Sequence[str]) -> dict[str, float]:
    """The groups of an utterance and their shares, such as {"ces/cv": 1.0} by language and corpus.

    An utterance belongs to several groups if a field has shares, such as `lang` in code-switching.
    """
    groups = {"": 1.0}
    for name in by:
        parts = _field_shares(utterance, name)
        for value in parts:
            if len(by) > 1 and GROUP_SEPARATOR in value:
                raise ValueError(f"cannot group by `{name}`: it must not contain {GROUP_SEPARATOR!r}; got {value!r}.")
        groups = {
            f"{group}{GROUP_SEPARATOR}{value}" if group else value: share * part
            for group, share in groups.items()
            for value, part in parts.items()
        }
    return groups


def _field_shares(utterance: Utterance, name: str) -> Mapping[str, float]:
    value = utterance.languages if name == "lang" else utterance.value(name)
    if isinstance(value, Mapping) and value:
        return value if name == "lang" else check_shares(name, value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"cannot group by `{name}`: it must be text; got {shorten(value)}.")
    return {value: 1.0}


def manifest_line(utterance: Utterance, folder: Path) -> str:
    """The line of an utterance in a manifest in `folder` (absolute). Paths of audio below `folder` become relative."""
    if is_url(utterance.audio_filepath):
        return json_line(utterance.to_record())
    audio = Path.cwd() / utterance.audio_filepath  # keeps `..`, whose meaning depends on symbolic links
    if audio.is_relative_to(folder) and not escapes_folder(str(audio.relative_to(folder))):
        audio = audio.relative_to(folder)
    return json_line(utterance.to_record() | {"audio_filepath": audio.as_posix()})


def read_utterances(path: PathLike) -> Iterator[tuple[int, Utterance]]:
    """Reads a manifest utterance by utterance, with the line number of each; blank lines are skipped."""
    folder = os.path.dirname(path)
    for number, record in read_json_lines(path):
        try:
            utterance = Utterance.from_record(record, folder)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: {error}") from error
        yield number, utterance
