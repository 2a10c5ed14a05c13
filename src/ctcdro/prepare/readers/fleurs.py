"""FLEURS, as its archives unpack: a folder for each language, with a table and a folder of audio for each split.

cs_cz/train.tsv, dev.tsv, test.tsv
cs_cz/audio/train/10004088536354799741.wav      or cs_cz/train/…
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...storage.paths import PathLike, escapes_folder
from ..prepare import SPLITS, CorpusEntry, Dropped
from ..tsv import language_folders, read_table

# The tables have no header.
COLUMNS = ("sentence", "file", "raw_text", "text", "characters", "num_samples", "gender")


def read_fleurs(
    root: PathLike, languages: Sequence[str] | None = None, raw: bool = False
) -> Iterator[CorpusEntry | Dropped]:
    """The utterances of those languages.

    Args:
        root: the folder of the languages, or of one of them.
        languages: those to take, as "ces" or as their folders are called, "cs_cz"; by default all.
        raw: take the sentence with its case, digits and punctuation, instead of the corpus's own normalized one. In
            some scripts it has a space after each character.

    Raises:
        ValueError: if a table is not there.
    """
    for language, folder in language_folders(root, "train.tsv", languages):
        for split in SPLITS:
            yield from _read_split(folder, split, language, "raw_text" if raw else "text")


def _read_split(folder: Path, split: str, language: str, text: str) -> Iterator[CorpusEntry | Dropped]:
    path = folder / f"{split}.tsv"
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected train.tsv, dev.tsv and test.tsv.")
    audio = next((place for place in (folder / "audio" / split, folder / split) if place.is_dir()), None)
    if audio is None:
        raise ValueError(f"{folder / 'audio' / split} is not there; unpack {split}.tar.gz in {folder / 'audio'}.")
    for number, row in read_table(path, COLUMNS):
        where = f"{path}:{number}"
        if isinstance(row, str):
            yield Dropped(split, language, where, "malformed line", row)
        elif escapes_folder(row["file"]):
            yield Dropped(split, language, where, "malformed line", f"{row['file']!r:.60} leads out of {audio}")
        else:
            yield CorpusEntry(
                split=split,
                audio=str(audio / row["file"]),
                text=row[text],
                lang=language,
                where=where,
                id=f"{language}_{Path(row['file']).stem}",  # the files of two languages may have one name
                corpus="fleurs",
            )
