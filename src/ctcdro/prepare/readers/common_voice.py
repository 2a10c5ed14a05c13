"""Common Voice, as its releases unpack: a folder for each language, with its splits as tables and its audio in clips.

cv-corpus-17.0-2024-03-15/cs/train.tsv, dev.tsv, test.tsv
cv-corpus-17.0-2024-03-15/cs/clips/common_voice_cs_20487366.mp3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...storage.paths import PathLike, escapes_folder
from ..prepare import SPLITS, CorpusEntry, Dropped
from ..tsv import language_folders, read_table


def read_common_voice(root: PathLike, languages: Sequence[str] | None = None) -> Iterator[CorpusEntry | Dropped]:
    """The utterances of a release, or of one of its languages.

    Args:
        root: the folder of the release, or of a language.
        languages: those to take, as "ces" or as their folders are called, "cs"; by default all.

    Raises:
        ValueError: if a table is not there or has no such columns.
    """
    for language, folder in language_folders(root, "train.tsv", languages):
        for split in SPLITS:
            yield from _read_split(folder, split, language)


def _read_split(folder: Path, split: str, language: str) -> Iterator[CorpusEntry | Dropped]:
    path = folder / f"{split}.tsv"
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected train.tsv, dev.tsv and test.tsv beside clips.")
    for number, row in read_table(path):
        where = f"{path}:{number}"
        if isinstance(row, str):
            yield Dropped(split, language, where, "malformed line", row)
        elif not {"path", "sentence"} <= set(row):
            raise ValueError(f"{path}:1: expected columns `path` and `sentence`; got {', '.join(row):.200}.")
        elif escapes_folder(row["path"]):
            yield Dropped(split, language, where, "malformed line", f"{row['path']!r:.60} leads out of clips")
        else:
            clip = row["path"] if Path(row["path"]).suffix else f"{row['path']}.mp3"  # old releases leave it out
            yield CorpusEntry(
                split=split,
                audio=str(folder / "clips" / clip),
                text=row["sentence"],
                lang=language,
                where=where,
                id=Path(clip).stem,
                corpus="commonvoice",
                speaker=row.get("client_id") or None,
            )
