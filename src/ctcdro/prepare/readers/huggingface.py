"""Any dataset of the library `datasets` with columns of audio, text and language: a name on the hub, or a folder.

Audio is taken as it is stored, without decoding it: files that exist are named, bytes are written below the dataset.
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
from ..prepare import SPLITS, CorpusEntry, Dropped

Keep = Callable[[str, str, Any], bool]


@dataclass(frozen=True)
class Columns:
    """Which column is what; None if there is none."""

    audio: str = "audio"
    text: str = "text"
    language: str | None = "language"
    id: str | None = None
    speaker: str | None = None
    corpus: str | None = None

    @property
    def light(self) -> list[str]:
        """All but the audio."""
        named = (self.text, self.language, self.id, self.speaker, self.corpus)
        return list(dict.fromkeys(name for name in named if name))


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
    """The utterances of a dataset.

    Args:
        name: on the hub, or a folder, as `save_to_disk` writes them or with files that `load_dataset` reads.
        out: the folder of the dataset to come; audio that is not in files of its own is written to `audio/` in it.
        columns: their names.
        config: of the dataset, as "cs_cz" of FLEURS.
        splits: which of its splits are train, dev and test; by default those of these names or "validation".
        lang: the language of all, where no column tells it.
        corpus: the name to note; by default `name`'s last part.
        keep: tells by (split, id, language) whether to take an utterance.

    Raises:
        ValueError: if a column or split is not there.
    """
    columns = columns or Columns()
    if lang is not None:
        columns = replace(columns, language=None)
    parts = _load(name, config)
    for split, theirs in _chosen_splits(name, list(parts), splits).items():
        where = f"{name}[{theirs}]"
        remove_leftovers(Path(out, "audio", split))
        _check_columns(where, parts[theirs].column_names, columns)
        for number, row in _rows(parts[theirs], columns, split, lang, keep):
            id = _id_of(row, number, columns)
            language = lang or row[columns.language or ""]
            if not isinstance(language, str) or not language:
                yield Dropped(split, "", f"{where}:{number}", "malformed line", f"no language: {language!r}", id)
                continue
            text = row[columns.text]
            if not isinstance(text, str | None):
                yield Dropped(split, language, f"{where}:{number}", "malformed line", f"no text: {text!r:.60}", id)
                continue
            audio = _stored(row[columns.audio], Path(out, "audio", split), id)
            if audio is None:
                yield Dropped(split, language, f"{where}:{number}", "missing audio", "neither bytes nor a path", id)
                continue
            speaker = row[columns.speaker] if columns.speaker else None
            yield CorpusEntry(
                split=split,
                audio=audio,
                text=text or "",
                lang=language,
                where=f"{where}:{number}",
                id=id,
                corpus=str(row[columns.corpus]) if columns.corpus else corpus or Path(name).name,
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
    except Exception as error:  # of a hundred kinds; the cause says more than the last of them
        raise ValueError(f"{name}: cannot be loaded by `datasets`: {error.__cause__ or error}") from error


def _chosen_splits(name: str, there: list[str], asked: Mapping[str, str] | None) -> dict[str, str]:
    if asked is None:
        found = {split: [other for other in (split, "validation", "valid") if other in there] for split in SPLITS}
        asked = {split: others[0] for split, others in found.items() if others and (split == "dev" or split in there)}
    missing = [theirs for theirs in asked.values() if theirs not in there]
    if missing or "train" not in asked:
        raise ValueError(
            f"{name}: no split {', '.join(missing) or 'train'} (found: {', '.join(there)}). Say which is which with "
            f"--train, --dev and --test."
        )
    return dict(asked)


def _check_columns(where: str, there: list[str], columns: Columns) -> None:
    missing = [name for name in (columns.audio, *columns.light) if name not in there]
    if missing:
        raise ValueError(
            f"{where}: no column {', '.join(missing)} (found: {', '.join(there)}). Say which is which with options "
            f"such as --text-column, or the language of all with --lang."
        )


def _rows(
    part: Any, columns: Columns, split: str, lang: str | None, keep: Keep | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows to take, and their numbers; the audio of others is not touched."""
    import datasets

    numbers: Sequence[int] = range(len(part))
    if keep is not None:
        light = enumerate(part.select_columns(columns.light))
        numbers = [n for n, row in light if keep(split, _id_of(row, n, columns), lang or row[columns.language or ""])]
    if isinstance(part.features[columns.audio], datasets.Audio):
        part = part.cast_column(columns.audio, datasets.Audio(decode=False))
    yield from zip(numbers, part.select(numbers), strict=True)


def _id_of(row: Mapping[str, Any], number: int, columns: Columns) -> str:
    return str(row[columns.id]) if columns.id else f"{number:07d}"


def _stored(audio: Any, folder: Path, id: str) -> str | None:
    """The path of an utterance's audio, written below `folder` if it has no file of its own; None if there is none.

    Raises:
        ValueError: if it is something else than the library stores audio as.
    """
    if audio is None or isinstance(audio, str):
        return audio or None
    if not isinstance(audio, dict) or not {"bytes", "path"} <= set(audio):
        raise ValueError(f"audio of {id}: expected a file, or its bytes; got {audio!r:.60}.")
    if not audio["bytes"]:
        return audio["path"] or None
    # Ids may have any characters, and come twice; files of other content have other names.
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
