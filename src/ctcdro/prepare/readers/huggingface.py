"""Datasets of the library `datasets` with columns for audio, text and language: a name on the hub, or a folder.

Audio is used as it is stored, without decoding: existing files are named, bytes are written to the dataset folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...runtime.extras import extra
from ...storage.atomic import atomic_write_bytes, remove_leftovers
from ...storage.paths import PathLike
from ..entries import CorpusEntry, Dropped

Keep = Callable[[str, str, Any], bool]

_SPLIT_NAMES = {"train": ["train"], "dev": ["dev", "validation", "valid"], "test": ["test"]}


@dataclass(frozen=True)
class Columns:
    """Names of the columns; None if there is none."""

    audio: str = "audio"
    text: str = "text"
    language: str | None = "language"
    id: str | None = None
    speaker: str | None = None

    @property
    def without_audio(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.text, self.language, self.id, self.speaker) if name))


def read_huggingface(
    name: str,
    out: PathLike,
    columns: Columns | None = None,
    config: str | None = None,
    splits: Mapping[str, str] | None = None,
    lang: str | None = None,
    corpus: str | None = None,
    keep: Keep | None = None,
) -> Iterator[CorpusEntry | Dropped]:
    """Reads a dataset.

    Args:
        name: name on the hub, or a folder written by `save_to_disk` or readable by `load_dataset`.
        out: the dataset folder that is being prepared; audio that is stored as bytes is written to `audio/` in it.
        config: configuration of the dataset, such as "cs_cz" of FLEURS.
        splits: its splits for train, dev and test; by default those with these names, or "validation" for dev.
        lang: language of all utterances, if there is no column for it.
        corpus: name of the corpus; by default the last part of `name`.
        keep: returns by split, id and language whether to read an utterance; by default all are read.
    """
    columns = columns or Columns()
    if lang is not None:
        columns = replace(columns, language=None)
    parts = _load(name, config)
    for split, source in _choose_splits(name, list(parts), splits).items():
        where = f"{name}[{source}]"
        remove_leftovers(Path(out, "audio", split))
        _check_columns(where, parts[source].column_names, columns)
        for number, row in _rows(parts[source], columns, split, lang, keep):
            place, id = f"{where}:{number}", _id_of(row, number, columns)
            language, text = lang or row[columns.language or ""], row[columns.text]
            if not isinstance(language, str) or not language:
                yield Dropped(split, "", place, "malformed line", f"no language: {language!r}", id)
            elif not isinstance(text, str | None):
                yield Dropped(split, language, place, "malformed line", f"no text: {text!r:.60}", id)
            elif (audio := _store(row[columns.audio], Path(out, "audio", split), id)) is None:
                yield Dropped(split, language, place, "missing audio", "neither bytes nor a path", id)
            else:
                speaker = row[columns.speaker] if columns.speaker else None
                yield CorpusEntry(
                    split=split,
                    audio=audio,
                    text=text or "",
                    lang=language,
                    where=place,
                    id=id,
                    corpus=corpus or Path(name).name,
                    speaker=str(speaker) if speaker is not None else None,
                )


def _load(name: str, config: str | None) -> Any:
    with extra("huggingface", "Reading a dataset of the library `datasets`"):
        import datasets
    try:
        if os.path.exists(os.path.join(name, "dataset_dict.json")):
            return datasets.load_from_disk(name)
        if os.path.exists(os.path.join(name, "state.json")):  # a dataset without splits
            return {"train": datasets.load_from_disk(name)}
        return datasets.load_dataset(name, config)
    except Exception as error:  # of many types; the cause is more informative
        raise ValueError(f"{name}: cannot be loaded by `datasets`: {error.__cause__ or error}") from error


def _choose_splits(name: str, available: list[str], chosen: Mapping[str, str] | None) -> dict[str, str]:
    if chosen is None:
        matches = {split: [name for name in names if name in available] for split, names in _SPLIT_NAMES.items()}
        chosen = {split: names[0] for split, names in matches.items() if names}
    missing = [source for source in chosen.values() if source not in available]
    if missing or "train" not in chosen:
        raise ValueError(
            f"{name}: no split {', '.join(missing) or 'train'} (found: {', '.join(available)}). Choose them "
            f"with --train-split, --dev-split and --test-split."
        )
    return dict(chosen)


def _check_columns(where: str, available: list[str], columns: Columns) -> None:
    missing = [name for name in (columns.audio, *columns.without_audio) if name not in available]
    if missing:
        raise ValueError(
            f"{where}: no column {', '.join(missing)} (found: {', '.join(available)}). Specify the columns with "
            f"options such as --text-column, or one language with --language."
        )


def _rows(
    part: Any, columns: Columns, split: str, lang: str | None, keep: Keep | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows to read, and their numbers; the audio of others is not loaded."""
    import datasets

    numbers: Sequence[int] = range(len(part))
    if keep is not None:
        rows = enumerate(part.select_columns(columns.without_audio))
        numbers = [n for n, row in rows if keep(split, _id_of(row, n, columns), lang or row[columns.language or ""])]
    if isinstance(part.features[columns.audio], datasets.Audio):
        part = part.cast_column(columns.audio, datasets.Audio(decode=False))
    yield from zip(numbers, part.select(numbers), strict=True)


def _id_of(row: Mapping[str, Any], number: int, columns: Columns) -> str:
    return str(row[columns.id]) if columns.id else f"{number:07d}"


def _store(audio: Any, folder: Path, id: str) -> str | None:
    """The path of an utterance's audio, or None; bytes are written to `folder`."""
    if audio is None or isinstance(audio, str):
        return audio or None
    if not isinstance(audio, dict) or not {"bytes", "path"} <= set(audio):
        raise ValueError(f"audio of {id}: expected a path or bytes; got {audio!r:.60}.")
    if not audio["bytes"]:
        return audio["path"] or None
    # Ids may have any characters and be repeated, so the name has a digest of the content.
    stem = re.sub(r"[^\w.-]", "_", id).lstrip(".")[:80]
    path = folder / f"{stem}-{hashlib.sha256(audio['bytes']).hexdigest()[:12]}{_suffix(audio)}"
    if not path.exists() or path.stat().st_size != len(audio["bytes"]):  # truncated by a power failure
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_bytes(path, audio["bytes"])
    return str(path)


_FIRST_BYTES = {b"RIFF": ".wav", b"fLaC": ".flac", b"OggS": ".ogg"}


def _suffix(audio: Mapping[str, Any]) -> str:
    suffix = Path(audio["path"] or "").suffix
    return suffix if re.fullmatch(r"\.\w{1,5}", suffix) else _FIRST_BYTES.get(audio["bytes"][:4], ".mp3")
