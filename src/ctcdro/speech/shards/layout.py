"""The shards of a dataset, in its folder train.

    data/train/cuts.000000.jsonl.gz  data/train/recording.000000.tar  …    lhotse Shar, as `CutSet.to_shar` writes it
    data/train/000000.tar  …                                               webdataset: audio and JSON per utterance
    data/train.json                                                        files of Shar by field, if not all are there

With `train.json`, audio may be on an object store: {"cuts": ["cuts.000000.jsonl.gz"], "recording": ["s3://…"]}. The
folder has nothing but shards, because lhotse would take other files for a field.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.json_files import read_json
from ...storage.paths import PathLike, resolve_audio_path
from ...storage.remote import is_url

FOLDER = "train"
FIELDS = "train.json"
AUDIO_FIELD = "recording"
CUTS_ENDINGS = (".jsonl.gz", ".jsonl")


class Shard(NamedTuple):
    audio: str
    """Path or URL of a tar file."""
    cuts: str | None
    """Path of its cuts; None if the metadata are in the tar file."""

    @property
    def listing(self) -> str:
        """The file with the metadata, for messages."""
        return self.cuts or self.audio


def has_shards(dataset: Path) -> bool:
    """Whether the training data of a dataset are shards; train.jsonl has precedence."""
    is_there = (dataset / FOLDER).is_dir() or (dataset / FIELDS).is_file()
    return is_there and not (dataset / "train.jsonl").is_file()


def refuse_shards(dataset: PathLike, command: str) -> None:
    if has_shards(Path(dataset)):
        raise ValueError(
            f"{dataset}: the training data are shards, which `{command}` does not support. Use a dataset with "
            "train.jsonl, such as the one from which the shards were written."
        )


def find_shards(dataset: Path) -> list[Shard]:
    """The shards of a dataset, in the order of their names, or of `train.json`.

    Raises:
        ValueError: if there are none, or one of them lacks a file. Names it.
    """
    folder = dataset / FOLDER
    shards = _listed_shards(dataset / FIELDS, folder) if (dataset / FIELDS).is_file() else _shards_in(folder)
    if not shards:
        raise ValueError(
            f"{folder}: no shards. Expected lhotse Shar (cuts.000000.jsonl.gz with {AUDIO_FIELD}.000000.tar, and so "
            "on), or tar files in the layout of webdataset."
        )
    for shard in shards:
        for path, other in ((shard.audio, shard.listing), (shard.listing, shard.audio)):
            if not is_url(path) and not os.path.isfile(path):
                raise ValueError(
                    f"{folder}: {os.path.basename(path):.200}: no such file. This shard is missing. Copy it, or remove "
                    f"the shard's other file, {os.path.basename(other):.200}."
                )
    return shards


def _shards_in(folder: Path) -> list[Shard]:
    names = sorted(os.listdir(folder))
    cuts = [name for name in names if name.startswith("cuts.") and name.endswith(CUTS_ENDINGS)]
    if not cuts:
        return [Shard(str(folder / name), None) for name in names if name.endswith(".tar")]
    shards = [Shard(str(folder / _audio_name(name)), str(folder / name)) for name in cuts]
    _refuse_unlisted(folder, names, shards)
    return shards


def _audio_name(cuts: str) -> str:
    ending = next(ending for ending in CUTS_ENDINGS if cuts.endswith(ending))
    return f"{AUDIO_FIELD}{cuts.removeprefix('cuts').removesuffix(ending)}.tar"


def _refuse_unlisted(folder: Path, names: list[str], shards: list[Shard]) -> None:
    listed = {os.path.basename(shard.audio) for shard in shards}
    for name in names:
        if name.startswith(f"{AUDIO_FIELD}.") and name.endswith(".tar") and name not in listed:
            number = name.removeprefix(AUDIO_FIELD).removesuffix(".tar")
            raise ValueError(f"{folder / name}: no cuts{number}.jsonl.gz for this shard. Copy it, or remove the shard.")


def _listed_shards(path: Path, folder: Path) -> list[Shard]:
    fields: Any = read_json(path)
    columns: list[Any] = [fields.get(name) if isinstance(fields, dict) else None for name in ("cuts", AUDIO_FIELD)]
    if not all(isinstance(column, list) and all(isinstance(name, str) for name in column) for column in columns):
        raise ValueError(f'{path}: expected lists of files in "cuts" and "{AUDIO_FIELD}", as `CutSet.to_shar` returns.')
    cuts, audio = columns
    if len(cuts) != len(audio):
        raise ValueError(f"{path}: {len(cuts):,} files of cuts, but {len(audio):,} of recordings. List one of each.")
    if remote := [name for name in cuts if is_url(name)]:
        raise ValueError(f"{path}: {remote[0]}: cuts must be local files. Download them; they are small.")
    return [
        Shard(one if is_url(one) else _resolve(one, folder, path), _resolve(its_cuts, folder, path))
        for one, its_cuts in zip(audio, cuts, strict=True)
    ]


def _resolve(name: str, folder: Path, listed_in: Path) -> str:
    if name.startswith("pipe:"):
        raise ValueError(f"{listed_in}: {name!r:.60}: commands are not executed. Use a path or a URL.")
    try:
        # `CutSet.to_shar` returns paths that contain its folder.
        return resolve_audio_path(name if os.path.isabs(name) else os.path.basename(name), folder)
    except ValueError as error:
        raise ValueError(f"{listed_in}: {error}") from error
