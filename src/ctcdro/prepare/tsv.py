"""Tab-separated tables, one per split and language, such as those of Common Voice and FLEURS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..storage.lines import numbered_lines
from ..storage.paths import PathLike
from .entries import SPLITS, Dropped
from .language_codes import language_code


class TableRow(NamedTuple):
    """A row of a table by column name, with its file and line."""

    split: str
    language: str
    folder: Path
    where: str
    fields: dict[str, str]


def read_split_tables(
    root: PathLike, languages: Sequence[str] | None, columns: Sequence[str] | None = None
) -> Iterator[TableRow | Dropped]:
    """Reads train.tsv, dev.tsv and test.tsv of each language folder. By default the first line has the column names."""
    for language, folder in _language_folders(Path(root), languages):
        for split in SPLITS:
            yield from read_table(folder / f"{split}.tsv", split, language, columns)


def read_table(
    path: Path, split: str, language: str, columns: Sequence[str] | None = None
) -> Iterator[TableRow | Dropped]:
    """Reads the rows of a table. Quotation marks have no special meaning."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected train.tsv, dev.tsv and test.tsv.")
    for number, line in numbered_lines(path):
        where, fields = f"{path}:{number}", line.split("\t")
        if columns is None:
            columns = fields
        elif len(fields) == len(columns):
            yield TableRow(split, language, path.parent, where, dict(zip(columns, fields, strict=True)))
        else:
            detail = f"{len(fields)} columns, expected {len(columns)} ({', '.join(columns):.200})"
            yield Dropped(split, language, where, "malformed line", detail)


def _language_folders(root: Path, languages: Sequence[str] | None) -> list[tuple[str, Path]]:
    """The language and path of each folder in `root` that has a train.tsv, or of `root` itself if it has one."""
    folders = [root] if (root / "train.tsv").is_file() else sorted(path.parent for path in root.glob("*/train.tsv"))
    result = []
    for folder in folders:
        try:
            result.append((language_code(folder.absolute().name), folder))
        except ValueError as error:
            if languages is None:
                raise ValueError(f"{folder}: the folder name must be a language code: {error}") from error
    if not result:
        raise ValueError(f"{root}: no train.tsv in this folder or one below it; expected one folder per language.")
    if languages is None:
        return result
    names = {name for language, folder in result for name in (language, folder.absolute().name)}
    if missing := [language for language in languages if language not in names]:
        raise ValueError(f"{root}: no {', '.join(missing)} (found: {', '.join(language for language, _ in result)}).")
    return [(language, folder) for language, folder in result if {language, folder.absolute().name} & set(languages)]
