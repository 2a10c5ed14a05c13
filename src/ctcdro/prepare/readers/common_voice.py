"""Common Voice releases, unpacked: one folder per language, with a table per split and its audio in `clips`.

cv-corpus-17.0-2024-03-15/cs/train.tsv, dev.tsv, test.tsv
cv-corpus-17.0-2024-03-15/cs/clips/common_voice_cs_20487366.mp3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...storage.paths import PathLike
from ..entries import CorpusEntry, Dropped, entry_in_folder
from ..tsv import read_split_tables


def read_common_voice(root: PathLike, languages: Sequence[str] | None = None) -> Iterator[CorpusEntry | Dropped]:
    """Reads a release, or one of its languages.

    Args:
        root: folder of the release, or of a single language.
        languages: languages to read, as ISO 639-3 codes ("ces") or folder names ("cs"); by default all.
    """
    for row in read_split_tables(root, languages):
        if isinstance(row, Dropped):
            yield row
            continue
        fields = row.fields
        if not {"path", "sentence"} <= set(fields):
            raise ValueError(f"{row.where}: expected columns `path` and `sentence`; got {', '.join(fields):.200}.")
        clip = fields["path"] if Path(fields["path"]).suffix else f"{fields['path']}.mp3"  # omitted in old releases
        yield entry_in_folder(
            row.folder / "clips",
            clip,
            split=row.split,
            lang=row.language,
            where=row.where,
            text=fields["sentence"],
            id=Path(clip).stem,
            corpus="commonvoice",
            speaker=fields.get("client_id") or None,
        )
