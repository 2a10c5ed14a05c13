"""Dataset folders: manifests, dropped entries, and how the dataset was made.

    train.jsonl, dev.jsonl, test.jsonl   the manifests
    dropped.jsonl                        entries that were dropped, their place in the corpus, and the reason
    dataset.json                         reader and options

All files are replaced together, after everything was read; after an error, an earlier dataset is unchanged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ..speech.manifest import Manifest, manifest_line
from ..speech.utterance import Utterance
from ..storage.atomic import atomic_write_many, remove_leftovers
from ..storage.json_files import json_line, read_json
from ..storage.paths import PathLike
from .entries import SPLITS, Dropped
from .statistics import LanguageSizes

# Dropped entries kept in memory; dropped.jsonl has all of them.
MAX_DROPPED_KEPT = 1000


class DatasetWriter:
    """Writes the files of a dataset, and counts their content."""

    def __init__(self, folder: Path, dropped: IO[str], manifests: Mapping[str, IO[str]]) -> None:
        self.sizes = {split: LanguageSizes() for split in SPLITS}
        self.num_dropped: Counter[str] = Counter()
        """By reason."""
        self.dropped: list[Dropped] = []
        """The first `MAX_DROPPED_KEPT`."""
        self._folder = folder.absolute()
        self._dropped_file = dropped
        self._manifest_files = manifests

    def add(self, split: str, utterance: Utterance) -> None:
        self._manifest_files[split].write(manifest_line(utterance, self._folder))
        self.sizes[split].add(utterance)

    def drop(self, entry: Dropped) -> None:
        self._dropped_file.write(json_line(asdict(entry)))
        self.num_dropped[entry.reason] += 1
        if len(self.dropped) < MAX_DROPPED_KEPT:
            self.dropped.append(entry)


@contextmanager
def replace_dataset(folder: Path, about: Mapping[str, Any]) -> Iterator[DatasetWriter]:
    """Opens a dataset to write, which replaces the existing one when the block ends without an error.

    Splits without utterances have no manifest. The caller must hold the folder's lock.
    """
    remove_leftovers(folder)
    paths = _manifest_paths(folder)
    with atomic_write_many([folder / "dataset.json", folder / "dropped.jsonl", *paths]) as (note, dropped, *files):
        json.dump(about, note, ensure_ascii=False, indent=2, sort_keys=True)
        note.write("\n")
        manifests = dict(zip(SPLITS, files, strict=True))
        writer = DatasetWriter(folder, dropped, manifests)
        yield writer
        empty = [split for split in SPLITS if not writer.sizes[split]]
        for split in empty:
            manifests[split].close()
    for split in empty:
        (folder / f"{split}.jsonl").unlink(missing_ok=True)


def write_dataset(out: PathLike, about: Mapping[str, Any], manifests: Mapping[str, Manifest]) -> None:
    """Writes a dataset and replaces an existing one; the caller must hold the folder's lock."""
    with replace_dataset(Path(out), about) as writer:
        for split, manifest in manifests.items():
            for utterance in manifest:
                writer.add(split, utterance)


def refuse_other_dataset(out: PathLike, about: Mapping[str, Any], overwrite: bool = False) -> None:
    """Checks that a folder has no dataset, or one made with the same reader and options."""
    folder = Path(out)
    manifests = [path for path in _manifest_paths(folder) if path.exists()]
    if not manifests or overwrite:
        return
    try:
        old, new = read_json(folder / "dataset.json"), json.loads(json.dumps(about))
        differences = [f"{key} was {old.get(key)!r:.60}" for key in old | new if old.get(key) != new.get(key)]
    except (OSError, ValueError, AttributeError):
        differences = ["dataset.json is missing or damaged"]
    if differences:
        raise ValueError(
            f"{manifests[0]} already exists, and was made with other options ({'; '.join(differences)}). Choose "
            f"another --out, or replace it with --overwrite."
        )


def _manifest_paths(folder: Path) -> list[Path]:
    return [folder / f"{split}.jsonl" for split in SPLITS]
