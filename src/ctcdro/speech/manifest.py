"""Manifests, and the fixed order of groups.

A manifest is a file of JSON lines, one utterance per line, with the field names of NeMo's manifests:

    {"audio_filepath": "clips/a1.flac", "duration": 3.2, "text": "dobrý den", "lang": "ces"}

`audio_filepath` (absolute, or relative to the folder of the manifest, and below it: see `storage.paths`), `duration`
(seconds), `text` and `lang` are required; `id`, `offset` (seconds into the file), `corpus` and `speaker` are optional;
other fields are kept. A group's number is its place among the sorted names of all groups, so that it does not depend on
the order of the data.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from ..storage.atomic import atomic_write
from ..storage.json_fields import shorten
from ..storage.json_files import json_line, read_json_lines
from ..storage.paths import PathLike, escapes_folder
from .utterance import Utterance

GROUP_SEPARATOR = "/"


@dataclass(frozen=True)
class Groups:
    """The groups of utterances: sorted names, and for each utterance the place of its group's name among them."""

    names: list[str]
    numbers: npt.NDArray[np.int64]


class Manifest(Sequence[Utterance]):
    """Utterances in a fixed order, from a file or not; `path` and `lines` tell where they were read from.

    Example:
        >>> manifest = Manifest([
        ...     Utterance("a.wav", duration=2.5, text="ahoj", lang="ces", corpus="cv"),
        ...     Utterance("b.wav", duration=4.0, text="你好", lang="cmn", corpus="fleurs"),
        ... ])
        >>> manifest.durations
        array([2.5, 4. ])
        >>> manifest.groups(by=["lang", "corpus"])
        Groups(names=['ces/cv', 'cmn/fleurs'], numbers=array([0, 1]))
    """

    def __init__(self, utterances: Iterable[Utterance]) -> None:
        if isinstance(utterances, str | os.PathLike):
            raise ValueError(f"`utterances` must be utterances; read a file with `Manifest.read({str(utterances)!r})`.")
        self._utterances = list(utterances)
        self.path: Path | None = None
        self.lines: list[int] = []

    @classmethod
    def read(cls, path: PathLike) -> Manifest:
        """Reads a manifest; paths of audio become relative to the working directory, or absolute.

        Raises:
            ValueError: naming the file, the line and the field where something is wrong.
        """
        manifest = cls([])
        manifest.path = Path(path)
        for line, utterance in read_utterances(path):
            manifest._utterances.append(utterance)
            manifest.lines.append(line)
        if not manifest._utterances:
            raise ValueError(f"{path}: no utterances; expected a JSON object on each line.")
        return manifest

    def write(self, path: PathLike) -> None:
        """Writes a manifest; audio below its folder is named relative to it, so that the folder can be moved.

        The file appears whole or not at all.
        """
        folder = Path(path).parent.absolute()
        with atomic_write(path) as file:
            file.writelines(manifest_line(utterance, folder) for utterance in self._utterances)

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

    def groups(self, by: str | Sequence[str] = "lang", names: Sequence[str] | None = None) -> Groups:
        """The group of each utterance.

        Args:
            by: the field or fields that tell groups apart, as a list or as "lang,corpus".
            names: groups settled before, as those of the training data when this is the development data; by default
            those found.

        Raises:
            ValueError: naming the file, the line and the field where an utterance has no group, or none of `names`.
        """
        by = [name.strip() for name in (by.split(",") if isinstance(by, str) else by)]
        if not by or not all(by):
            raise ValueError(f'`by` must name at least one field, as "lang" or "lang,corpus"; got {by}.')
        if names is not None and len(set(names)) != len(names):
            raise ValueError(f"`names` must be different from each other; got {', '.join(names)}.")
        own = [self._group_name(number, by) for number in range(len(self))]
        settled = sorted(set(own)) if names is None else list(names)
        place = {name: number for number, name in enumerate(settled)}
        for number, name in enumerate(own):
            if name not in place:
                raise ValueError(f"{self.where(number)}: group {name!r} is not among `names` ({', '.join(settled)}).")
        return Groups(settled, np.array([place[name] for name in own], dtype=np.int64))

    def _group_name(self, number: int, by: list[str]) -> str:
        try:
            return group_name(self._utterances[number], by)
        except ValueError as error:
            raise ValueError(f"{self.where(number)}: {error}") from error

    def where(self, number: int) -> str:
        """File and line of an utterance, for messages."""
        return f"utterance {number}" if self.path is None else f"{self.path}:{self.lines[number]}"


def group_name(utterance: Utterance, by: Sequence[str]) -> str:
    """The group of an utterance.

    Example:
        >>> group_name(Utterance("a.wav", duration=2.5, text="ahoj", lang="ces", corpus="cv"), by=["lang", "corpus"])
        'ces/cv'

    Raises:
        ValueError: naming the field that tells none.
    """
    values = [utterance.value(name) for name in by]
    for name, value in zip(by, values, strict=True):
        if not isinstance(value, str) or not value:
            raise ValueError(f"`{name}` must be text, to group by it; got {shorten(value)}.")
        if len(by) > 1 and GROUP_SEPARATOR in value:
            raise ValueError(f"`{name}` must have no {GROUP_SEPARATOR!r}, to group by it; got {value!r}.")
    return GROUP_SEPARATOR.join(values)


def manifest_line(utterance: Utterance, folder: Path) -> str:
    """The line of an utterance in a manifest, with its end.

    Args:
        folder: of the manifest, an absolute path; audio below it is named relative to it.

    Example:
        >>> manifest_line(Utterance("/data/a.wav", duration=2.5, text="řeč", lang="ces"), Path("/data"))
        '{"audio_filepath": "a.wav", "duration": 2.5, "text": "řeč", "lang": "ces"}\\n'
    """
    above, name = os.path.split(utterance.audio_filepath)
    if name in ("", os.curdir, os.pardir):
        audio = _named_from(folder, os.getcwd(), utterance.audio_filepath)
    else:
        above = _named_from(folder, os.getcwd(), above)
        audio = name if above == os.curdir else posixpath.join(above, name)
    return json_line(utterance.to_record() | {"audio_filepath": audio})


@lru_cache(maxsize=1024)  # since many files are in few folders
def _named_from(folder: Path, working: str, path: str) -> str:
    """A path as a manifest in `folder` names it: relative if it is below, otherwise absolute."""
    place = Path(working) / path  # with its .., which lead elsewhere behind a link
    if place.is_relative_to(folder) and not escapes_folder(str(below := place.relative_to(folder))):
        place = below
    return place.as_posix()


def read_utterances(path: PathLike) -> Iterator[tuple[int, Utterance]]:
    """Reads a manifest utterance by utterance, with the line number of each; blank lines are skipped.

    Raises:
        ValueError: names the file, the line and the invalid field.
    """
    folder = os.path.dirname(path)
    for number, record in read_json_lines(path):
        try:
            utterance = Utterance.from_record(record, folder)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: {error}") from error
        yield number, utterance
