"""Tables with tab-separated columns, one per split and language, as Common Voice and FLEURS have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..storage.lines import numbered_lines
from ..storage.paths import PathLike
from .entries import SPLITS, Dropped
from .language_codes import language_code


class TableRow(NamedTuple):
    """A row of a table, by column, and where it is."""

    split: str
    language: str
    folder: Path
    """Folder of the table."""
    where: str
    fields: dict[str, str]

    def drop(self, detail: str) -> Dropped:
        """Drops the row as malformed."""
        return Dropped(self.split, self.language, self.where, "malformed line", detail)


def read_split_tables(
    root: PathLike, languages: Sequence[str] | None, columns: Sequence[str] | None = None
) -> Iterator[TableRow | Dropped]:
    """Reads train.tsv, dev.tsv and test.tsv of each language folder.

    Args:
        root: folder of the languages, or of one of them.
        languages: languages to read, as ISO 639-3 codes or folder names; by default all.
        columns: names of the columns; by default the first line has them.

    Raises:
        ValueError: if a language or a table is missing.
    """
    for language, folder in language_folders(root, languages):
        for split in SPLITS:
            path = folder / f"{split}.tsv"
            if not path.is_file():
                raise ValueError(f"{path}: no such file; expected train.tsv, dev.tsv and test.tsv.")
            for number, fields in read_table(path, columns):
                row = TableRow(split, language, folder, f"{path}:{number}", {} if isinstance(fields, str) else fields)
                yield row.drop(fields) if isinstance(fields, str) else row


def read_table(path: PathLike, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Reads the rows of a table and their line numbers. Quotation marks have no special meaning.

    Args:
        path: the table.
        columns: names of the columns; by default the first line has them.

    Returns:
        For each row its fields, or an error message if their number is wrong.
    """
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if columns is None:
            columns = fields
        elif len(fields) == len(columns):
            yield number, dict(zip(columns, fields, strict=True))
        else:
            yield number, f"{len(fields)} columns, expected {len(columns)} ({', '.join(columns):.200})"


def language_folders(root: PathLike, languages: Sequence[str] | None) -> list[tuple[str, Path]]:
    """The language and path of each folder in `root` that has a train.tsv, or of `root` itself if it has one.

    Raises:
        ValueError: if there are none, or one of `languages` is missing.
    """
    root = Path(root)
    folders = [root] if (root / "train.tsv").is_file() else sorted(path.parent for path in root.glob("*/train.tsv"))
    result = []
    for folder in folders:
        try:
            result.append((language_code(folder.absolute().name), folder))
        except ValueError as error:
            if languages is None:
                raise ValueError(f"{folder}: the folder must be named after its language: {error}") from error
    if not result:
        raise ValueError(f"{root}: no train.tsv in it or in a folder below it; expected one folder per language.")
    if languages is None:
        return result
    names = {name for language, folder in result for name in (language, folder.absolute().name)}
    if missing := [language for language in languages if language not in names]:
        raise ValueError(f"{root}: no {', '.join(missing)} (found: {', '.join(language for language, _ in result)}).")
    return [(language, folder) for language, folder in result if {language, folder.absolute().name} & set(languages)]
