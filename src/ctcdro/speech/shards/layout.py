"""The shards of a folder.

    train/cuts.000000.jsonl.gz  train/recording.000000.tar  …    lhotse Shar, as `CutSet.to_shar` writes it
    train/fields.json                                            its files by field, as `CutSet.to_shar` returns them
    train/000000.tar  …                                          webdataset: audio and a JSON object per utterance

With `fields.json`, audio may be on an object store: {"cuts": ["cuts.000000.jsonl.gz"], "recording": ["s3://…"]}.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.json_files import read_json
from ...storage.paths import resolve_audio_path
from .remote import is_url

FIELDS = "fields.json"
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


def shards_folder(dataset: Path) -> Path | None:
    """The folder with the training data of a dataset, unless it has train.jsonl or no such folder."""
    folder = dataset / "train"
    return folder if folder.is_dir() and not (dataset / "train.jsonl").is_file() else None


def find_shards(folder: Path) -> list[Shard]:
    """The shards of a folder, in the order of their names, or of `fields.json`.

    Raises:
        ValueError: if there are none, or one of them lacks a file. Names it.
    """
    if (folder / FIELDS).is_file():
        shards = _listed_shards(folder)
    else:
        names = sorted(os.listdir(folder))
        cuts = [name for name in names if name.startswith("cuts.") and name.endswith(CUTS_ENDINGS)]
        if cuts:
            shards = [Shard(str(folder / _audio_name(name)), str(folder / name)) for name in cuts]
            _refuse_unlisted(folder, names, shards)
        else:
            shards = [Shard(str(folder / name), None) for name in names if name.endswith(".tar")]
    if not shards:
        raise ValueError(
            f"{folder}: no shards. Expected lhotse Shar (cuts.000000.jsonl.gz with {AUDIO_FIELD}.000000.tar, and so "
            "on), or tar files in the layout of webdataset."
        )
    for shard in shards:
        for path in (shard.audio, shard.listing):
            if not is_url(path) and not os.path.isfile(path):
                raise ValueError(f"{path}: no such file. This shard is missing; copy it, or remove {shard.listing}.")
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


def _listed_shards(folder: Path) -> list[Shard]:
    path = folder / FIELDS
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
