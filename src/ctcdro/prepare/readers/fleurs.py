"""FLEURS archives, unpacked: one folder per language, with a table and an audio folder per split.

cs_cz/train.tsv, dev.tsv, test.tsv
cs_cz/audio/train/10004088536354799741.wav      or cs_cz/train/…
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from ...storage.paths import PathLike
from ..entries import CorpusEntry, Dropped, entry_in_folder
from ..tsv import read_split_tables

# The tables have no header.
COLUMNS = ("sentence", "file", "raw_text", "text", "characters", "num_samples", "gender")


def read_fleurs(root: PathLike, languages: Sequence[str] | None = None) -> Iterator[CorpusEntry | Dropped]:
    """Reads the normalized transcriptions of FLEURS.

    Args:
        root: folder with one folder per language, or the folder of a single language; or the folder of a download
            from the Hugging Face Hub, which has the languages in data/.
        languages: languages to read, as ISO 639-3 codes ("ces") or folder names ("cs_cz"); by default all.
    """
    audio_folder = cache(_audio_folder)
    downloaded = Path(root) / "data"
    for row in read_split_tables(downloaded if downloaded.is_dir() else root, languages, COLUMNS):
        if isinstance(row, Dropped):
            yield row
            continue
        file = row.fields["file"]
        yield entry_in_folder(
            audio_folder(row.folder, row.split),
            file,
            split=row.split,
            lang=row.language,
            where=row.where,
            text=row.fields["text"],
            id=f"{row.language}_{Path(file).stem}",  # files of two languages may have the same name
            corpus="fleurs",
        )


def _audio_folder(folder: Path, split: str) -> Path:
    for candidate in (folder / "audio" / split, folder / split):
        if candidate.is_dir():
            return candidate
    raise ValueError(f"{folder / 'audio' / split}: no such folder. Unpack {split}.tar.gz in {folder / 'audio'}.")
